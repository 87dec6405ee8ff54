#include "runner/parent/devices/choose_device.h"

#include <algorithm>
#include <array>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "runner/shared/text/join.h"
#include "runner/shared/text/suggest.h"
#include "runner/shared/text/units.h"

namespace runner {
namespace {

double number_in(const Value& value) {
  const auto* whole = std::get_if<std::int64_t>(&value.data);
  if (whole) return static_cast<double>(*whole);
  return value.reveal() ? std::stod(*value.reveal()) : std::get<double>(value.data);
}

std::vector<std::string> words_in(const Value& list) {
  std::vector<std::string> words;
  for (const Value& item : *list.list()) {
    const auto* number = std::get_if<std::int64_t>(&item.data);
    words.push_back(number ? std::to_string(*number) : *item.reveal());
  }
  return words;
}

}  // namespace

bool DeviceRequest::may_fall_back_to(std::string_view where) const {
  return std::ranges::count(fallback, where) > 0;
}

std::optional<int> DeviceRequest::index() const {
  if (!select.starts_with("cuda:")) return std::nullopt;
  return std::stoi(select.substr(5));
}

DeviceRequest request_for_another(DeviceRequest request, std::vector<std::string> left) {
  request.select = "cuda";
  request.fallback.clear();
  request.preferred.clear();
  request.left = std::move(left);
  return request;
}

DeviceRequest device_request(const Value& recipe) {
  const Value& device = *recipe.find("device");
  DeviceRequest request{.select = *device.find("select")->reveal(),
                        .exclude = words_in(*device.find("exclude")),
                        .wait = std::get<bool>(device.find("wait_for_gpu")->data),
                        .fallback = words_in(*device.find("fallback"))};
  if (const auto* megabytes = std::get_if<std::int64_t>(&device.find("min_gpu_memory_mb")->data))
    request.need = *megabytes << 20;
  request.timeout =
      std::chrono::duration<double>(60 * number_in(*device.find("wait_timeout_minutes")));
  request.interval =
      std::chrono::duration<double>(number_in(*device.find("check_interval_seconds")));
  return request;
}

namespace {

Diagnostic no_such_gpu(const std::string& select, const std::string& why, std::string help) {
  return {ErrorCode::kDeviceUnavailable,
          {},
          "/device/select",
          "device '" + select + "' is not available: " + why,
          std::move(help)};
}

/// True if `entry` of device.exclude refers to the device, which has the index `place` among the
/// visible devices.
bool means(const std::string& entry, const DeviceFacts& device, std::size_t place) {
  return entry == std::to_string(place) || entry == device.uuid || entry == device.gpu_uuid;
}

std::string number_of_gpus(std::size_t count) {
  return count == 1 ? "there is only cuda:0"
                    : "there are cuda:0 to cuda:" + std::to_string(count - 1);
}

}  // namespace

bool is_too_old(const DeviceFacts& device) {
  return device.capability > 0 && device.capability < kOldestCapability;
}

bool has_room(const DeviceFacts& device, std::int64_t bytes) {
  return device.free ? *device.free >= bytes : could_have_room(device, bytes);
}

bool could_have_room(const DeviceFacts& device, std::int64_t bytes) {
  return !device.total || *device.total - device.reserved.value_or(0) >= bytes;
}

Result<MeantDevices> candidates(const DeviceRequest& request, const VisibleDevices& visible) {
  MeantDevices found{.first_choice = request.preferred};
  const auto named = request.index();
  const auto count = static_cast<int>(visible.devices.size());
  if (named && *named < count && !visible.in_cuda_order && count > 1) {
    return no_such_gpu(
        request.select,
        "CUDA numbers GPUs starting with the fastest, in an order known only to CUDA",
        "set CUDA_DEVICE_ORDER=PCI_BUS_ID to number GPUs as nvidia-smi does, or write device=auto");
  }
  const bool has_named = named && *named < count;
  const auto gpu = std::ranges::find(request.fallback, "gpu"),
             cpu = std::ranges::find(request.fallback, "cpu");
  const bool may_be_another = !named || gpu < cpu;
  if (named && !has_named && !(may_be_another && count > 0)) {
    return no_such_gpu(request.select, number_of_gpus(visible.devices.size()),
                       "use one of those, or device=cpu");
  }
  if (has_named) {
    found.devices.push_back(visible.devices[static_cast<std::size_t>(*named)]);
    found.first_choice = found.devices.front().uuid;
  }
  for (std::size_t i = 0; may_be_another && i < visible.devices.size(); ++i) {
    const DeviceFacts& device = visible.devices[i];
    const auto is_meant = [&](const std::string& entry) { return means(entry, device, i); };
    if (is_too_old(device) || std::ranges::count(request.left, device.uuid) > 0) continue;
    if (std::ranges::any_of(request.exclude, is_meant)) continue;
    if (!has_named || static_cast<int>(i) != *named) found.devices.push_back(device);
  }
  return found;
}

std::vector<std::string> idle_exclusions(const DeviceRequest& request,
                                         const VisibleDevices& visible) {
  std::vector<std::string> lines;
  for (const std::string& entry : request.exclude) {
    bool is_there = false;
    for (std::size_t i = 0; i < visible.devices.size(); ++i)
      is_there = is_there || means(entry, visible.devices[i], i);
    if (!is_there) lines.push_back("device.exclude: no visible GPU is '" + entry + "'");
  }
  return lines;
}

std::vector<DeviceFacts> ranked(MeantDevices candidates) {
  const auto rank = [&](const DeviceFacts& device) {
    return std::tuple(device.uuid != candidates.first_choice, !device.free.has_value(),
                      -device.free.value_or(0), device.utilization.value_or(0), device.index,
                      device.instance.value_or(0));
  };
  std::ranges::stable_sort(candidates.devices, {}, rank);
  return std::move(candidates.devices);
}

std::string state_text(const DeviceFacts& device) {
  std::string text = device.free ? bytes_text(*device.free) : "unknown memory";
  if (device.total) text += " of " + bytes_text(*device.total);
  text += " free";
  if (device.utilization && *device.utilization > 0)
    text += ", " + std::to_string(*device.utilization) + "% in use";
  const std::string holders = holders_text(device);
  return holders.empty() ? text : text + ", " + holders;
}

Diagnostic no_room(std::span<const DeviceFacts> candidates, const DeviceNeed& need,
                   std::span<const std::string> taken, bool has_waited) {
  const bool is_hopeless = std::ranges::none_of(
      candidates, [&](const DeviceFacts& device) { return could_have_room(device, need.bytes); });
  const std::string bytes =
      bytes_text(need.bytes) + (need.from.empty() ? "" : " (" + need.from + ")");
  Diagnostic error{ErrorCode::kDeviceUnavailable, {}, "/device/select", "", ""};
  if (is_hopeless) {
    error.message = "no GPU here has " + bytes;
    error.help =
        "run `retort plan` to see which options would reduce memory use, or set "
        "device.fallback=[cpu] to allow the CPU";
  } else {
    const bool any_room = std::ranges::any_of(
        candidates, [&](const DeviceFacts& device) { return has_room(device, need.bytes); });
    error.message = any_room || need.bytes == 0 ? "every GPU with enough memory is in use"
                                                : "no GPU has " + bytes + " free";
    if (has_waited) error.message += " after waiting for device.wait_timeout_minutes";
    error.help =
        has_waited
            ? "raise device.wait_timeout_minutes, or allow the CPU: device.fallback=[cpu]"
            : "wait for one: device.wait_for_gpu=true; or allow the CPU: device.fallback=[cpu]";
  }
  for (const DeviceFacts& device : candidates) {
    const bool is_taken = std::ranges::count(taken, device.uuid) > 0;
    error.notes.push_back({{},
                           device_text(device) + ": " + state_text(device) +
                               (is_taken ? "; another run of yours uses it" : "")});
  }
  return error;
}

namespace {

constexpr std::int64_t gib(double size) {
  return static_cast<std::int64_t>(size * (1 << 30));
}  // bytes as reported
constexpr std::int64_t gb(std::int64_t size) {
  return size * 1'000'000'000;
}  // bytes as stated on
   // a data sheet

constexpr std::string_view kGeForce =
    "https://www.nvidia.com/en-us/geforce/graphics-cards/compare/";
constexpr std::string_view kP100 = "https://www.nvidia.com/en-us/data-center/tesla-p100/";
constexpr std::string_view kMig =
    "https://docs.nvidia.com/datacenter/tesla/mig-user-guide/610/supported-gpus.html";
constexpr std::string_view kL40 =
    "https://github.com/QwenLM/Qwen3-VL/issues/2097";  // a report from an L40S, which has the same
                                                       // memory

constexpr std::array kModels = {
    DeviceModel{"NVIDIA P100", gb(16), "Pascal", 60, kP100},
    DeviceModel{"NVIDIA V100", gib(15.78), "Volta", 70,
                "https://github.com/kchengiva/Shift-GCN/issues/34"},
    DeviceModel{"NVIDIA V100 32GB", gib(31.74), "Volta", 70,
                "https://github.com/liucongg/ChatGLM-Finetuning/issues/73"},
    DeviceModel{"NVIDIA GeForce GTX 1660 Ti", gib(5.81), "Turing", 75,
                "https://github.com/zhou13/lcnn/issues/23"},
    DeviceModel{"NVIDIA GeForce RTX 2060", gb(6), "Turing", 75, kGeForce},
    DeviceModel{"NVIDIA GeForce RTX 2060 12GB", gb(12), "Turing", 75, kGeForce},
    DeviceModel{"NVIDIA GeForce RTX 2060 SUPER", gb(8), "Turing", 75, kGeForce},
    DeviceModel{"NVIDIA GeForce RTX 2070", gb(8), "Turing", 75, kGeForce},
    DeviceModel{"NVIDIA GeForce RTX 2070 SUPER", gb(8), "Turing", 75, kGeForce},
    DeviceModel{"NVIDIA GeForce RTX 2080", gb(8), "Turing", 75, kGeForce},
    DeviceModel{"NVIDIA GeForce RTX 2080 SUPER", gb(8), "Turing", 75, kGeForce},
    DeviceModel{"NVIDIA GeForce RTX 2080 Ti", gib(10.76), "Turing", 75,
                "https://github.com/JDAI-CV/image-captioning/issues/11"},
    DeviceModel{"NVIDIA TITAN RTX", gb(24), "Turing", 75,
                "https://www.nvidia.com/en-us/deep-learning-ai/products/titan-rtx/"},
    DeviceModel{"NVIDIA T4", gib(14.56), "Turing", 75,
                "https://github.com/Zheng-Chong/CatVTON/issues/133"},
    DeviceModel{"NVIDIA GeForce RTX 3050", gb(8), "Ampere", 86, kGeForce},
    DeviceModel{"NVIDIA GeForce RTX 3060", gib(11.75), "Ampere", 86,
                "https://github.com/Kunhao-Liu/StyleGaussian/issues/12"},
    DeviceModel{"NVIDIA GeForce RTX 3060 Ti", gb(8), "Ampere", 86, kGeForce},
    DeviceModel{"NVIDIA GeForce RTX 3070", gib(7.76), "Ampere", 86,
                "https://github.com/sshan-zhao/GASDA/issues/19"},
    DeviceModel{"NVIDIA GeForce RTX 3070 Ti", gb(8), "Ampere", 86, kGeForce},
    DeviceModel{"NVIDIA GeForce RTX 3080", gb(10), "Ampere", 86, kGeForce},
    DeviceModel{"NVIDIA GeForce RTX 3080 12GB", gb(12), "Ampere", 86, kGeForce},
    DeviceModel{"NVIDIA GeForce RTX 3080 Ti", gb(12), "Ampere", 86, kGeForce},
    DeviceModel{"NVIDIA GeForce RTX 3090", gib(23.59), "Ampere", 86,
                "https://github.com/Stable-X/StableNormal/issues/33"},
    DeviceModel{"NVIDIA GeForce RTX 3090 Ti", gb(24), "Ampere", 86, kGeForce},
    DeviceModel{"NVIDIA RTX A4000", gib(15.61), "Ampere", 86,
                "https://github.com/DengKaiCQ/VGGT-Long/issues/6"},
    DeviceModel{"NVIDIA RTX A5000", gb(24), "Ampere", 86,
                "https://www.nvidia.com/en-us/design-visualization/rtx-a5000/"},
    DeviceModel{"NVIDIA RTX A6000", gb(48), "Ampere", 86,
                "https://www.nvidia.com/en-us/design-visualization/rtx-a6000/"},
    DeviceModel{"NVIDIA A10G", gib(22.49), "Ampere", 86,
                "https://github.com/AUTOMATIC1111/stable-diffusion-webui/issues/1259"},
    DeviceModel{"NVIDIA A30", gib(23.53), "Ampere", 80,
                "https://github.com/google/RB-Modulation/issues/5"},
    DeviceModel{"NVIDIA A100 40GB", gib(39.50), "Ampere", 80,
                "https://github.com/TianheWu/CoSeR/issues/10"},
    DeviceModel{"NVIDIA A100 80GB", gib(79.15), "Ampere", 80,
                "https://github.com/vllm-project/vllm/issues/4408"},
    DeviceModel{"NVIDIA GeForce RTX 4060", gb(8), "Ada Lovelace", 89, kGeForce},
    DeviceModel{"NVIDIA GeForce RTX 4060 Ti", gb(8), "Ada Lovelace", 89, kGeForce},
    DeviceModel{"NVIDIA GeForce RTX 4060 Ti 16GB", gb(16), "Ada Lovelace", 89, kGeForce},
    DeviceModel{"NVIDIA GeForce RTX 4070", gb(12), "Ada Lovelace", 89, kGeForce},
    DeviceModel{"NVIDIA GeForce RTX 4070 SUPER", gb(12), "Ada Lovelace", 89, kGeForce},
    DeviceModel{"NVIDIA GeForce RTX 4070 Ti", gb(12), "Ada Lovelace", 89, kGeForce},
    DeviceModel{"NVIDIA GeForce RTX 4070 Ti SUPER", gb(16), "Ada Lovelace", 89, kGeForce},
    DeviceModel{"NVIDIA GeForce RTX 4080", gb(16), "Ada Lovelace", 89, kGeForce},
    DeviceModel{"NVIDIA GeForce RTX 4080 SUPER", gb(16), "Ada Lovelace", 89, kGeForce},
    DeviceModel{"NVIDIA GeForce RTX 4090", gib(23.64), "Ada Lovelace", 89,
                "https://github.com/3DTopia/Phidias-Diffusion/issues/8"},
    DeviceModel{"NVIDIA RTX 6000 Ada", gib(44.43), "Ada Lovelace", 89,
                "https://github.com/DINGYANB/MTVCrafter/issues/21"},
    DeviceModel{"NVIDIA L4", gib(22.03), "Ada Lovelace", 89,
                "https://github.com/ArcInstitute/evo2/issues/190"},
    DeviceModel{"NVIDIA L40", gib(44.40), "Ada Lovelace", 89, kL40},
    DeviceModel{"NVIDIA L40S", gib(44.40), "Ada Lovelace", 89, kL40},
    DeviceModel{"NVIDIA H100 80GB", gib(79.11), "Hopper", 90,
                "https://github.com/vllm-project/vllm/issues/27508"},
    DeviceModel{"NVIDIA H100 NVL", gib(93.00), "Hopper", 90,
                "https://github.com/ali-vilab/VACE/issues/56"},
    DeviceModel{"NVIDIA H200", gb(141), "Hopper", 90, kMig},
    DeviceModel{"NVIDIA B200", gb(180), "Blackwell", 100, kMig},
    DeviceModel{"NVIDIA GeForce RTX 5050", gb(8), "Blackwell", 120, kGeForce},
    DeviceModel{"NVIDIA GeForce RTX 5060", gb(8), "Blackwell", 120, kGeForce},
    DeviceModel{"NVIDIA GeForce RTX 5060 Ti", gb(8), "Blackwell", 120, kGeForce},
    DeviceModel{"NVIDIA GeForce RTX 5060 Ti 16GB", std::int64_t{15816} << 20, "Blackwell", 120,
                "https://github.com/Luce-Org/lucebox/issues/407"},
    DeviceModel{"NVIDIA GeForce RTX 5070", gb(12), "Blackwell", 120, kGeForce},
    DeviceModel{"NVIDIA GeForce RTX 5070 Ti", gb(16), "Blackwell", 120, kGeForce},
    DeviceModel{"NVIDIA GeForce RTX 5080", gb(16), "Blackwell", 120, kGeForce},
    DeviceModel{"NVIDIA GeForce RTX 5090", gb(32), "Blackwell", 120, kGeForce},
    DeviceModel{"NVIDIA RTX PRO 6000 Blackwell", gb(96), "Blackwell", 120, kMig},
};

/// Splits a name into lower-case words, separated by spaces, '-' and '_'.
std::vector<std::string> words(std::string_view name) {
  std::vector<std::string> result(1);
  for (const unsigned char letter : name) {
    if (letter == ' ' || letter == '-' || letter == '_') result.emplace_back();
    else result.back() += static_cast<char>(std::tolower(letter));
  }
  std::erase(result, "");
  return result;
}

/// Returns the words that distinguish models: "Tesla V100" and "V100" are the same model.
std::vector<std::string> known_words(std::string_view name) {
  std::vector<std::string> result = words(name);
  std::erase_if(result, [](const std::string& word) {
    return word == "nvidia" || word == "geforce" || word == "tesla" || word == "rtx";
  });
  return result;
}

/// Returns the model with that name, or else the models with names that contain every word of
/// `name`, or else those with names that end in `name` when spaces are removed.
std::vector<const DeviceModel*> meant(std::string_view name) {
  std::vector<std::string> wanted = words(name);
  if (wanted.size() > 1) std::erase(wanted, "tesla");
  std::vector<const DeviceModel*> found;
  if (wanted.empty()) return found;
  for (const DeviceModel& model : kModels) {
    const std::vector<std::string> has = words(model.name);
    if (has == wanted) return {&model};
    if (std::ranges::all_of(
            wanted, [&](const std::string& word) { return std::ranges::count(has, word) > 0; }))
      found.push_back(&model);
  }
  const std::vector<std::string> telling = known_words(name);
  const auto is_whole = [&](const DeviceModel* model) {
    return known_words(model->name) == telling;
  };
  if (std::ranges::count_if(found, is_whole) == 1) return {*std::ranges::find_if(found, is_whole)};
  if (!found.empty()) return found;
  for (const DeviceModel& model : kModels) {
    const std::string whole = join(words(model.name), "");
    const bool is_end =
        whole.ends_with(join(wanted, "")) && join(wanted, "").size() > 4;  // "rtx4090", not "90"
    if (is_end) found.push_back(&model);
  }
  return found;
}

/// Returns the model that `name` is a variant of: `name` contains every word of the model's short
/// name, and more. Empty: none.
std::string model_of_variant(std::string_view name) {
  const std::vector<std::string> wanted = words(name);
  std::string model_name;
  std::size_t most = 0;
  for (const DeviceModel& model : kModels) {
    const std::vector<std::string> has = words(short_name(model));
    const bool holds_all = std::ranges::all_of(
        has, [&](const std::string& word) { return std::ranges::count(wanted, word) > 0; });
    if (!holds_all || has.size() <= most) continue;
    most = has.size();
    model_name = model.name;
  }
  return model_name;
}

Diagnostic unknown(std::string_view name) {
  std::vector<std::string> names, short_names;
  for (const DeviceModel& model : kModels) {
    names.emplace_back(model.name);
    short_names.push_back(join(words(short_name(model)), "-"));
  }
  std::string near = model_of_variant(name);
  if (near.empty()) near = nearest_name(name, names);
  if (near.empty()) {
    const std::string brief = nearest_name(join(words(name), "-"), short_names);
    const auto at = std::ranges::find(short_names, brief);
    if (at != short_names.end()) near = names[static_cast<std::size_t>(at - short_names.begin())];
  }
  return {ErrorCode::kUsage,
          {},
          "",
          "no GPU named '" + std::string(name) + "' is known",
          near.empty() ? "known GPUs: " + join(names, ", ") : "did you mean '" + near + "'?"};
}

}  // namespace

std::span<const DeviceModel> device_models() { return kModels; }

std::string short_name(const DeviceModel& model) {
  std::string name(model.name);
  for (const std::string_view common : {"NVIDIA ", "GeForce "}) {
    if (name.starts_with(common)) name.erase(0, common.size());
  }
  std::ranges::replace(name, ' ', '-');
  return name;
}

Result<const DeviceModel*> device_model(std::string_view name) {
  const std::vector<const DeviceModel*> found = meant(name);
  if (found.size() == 1) return found.front();
  if (found.empty()) return unknown(name);
  std::vector<std::string> names;
  for (const DeviceModel* model : found) names.emplace_back(model->name);
  return Diagnostic{ErrorCode::kUsage,
                    {},
                    "",
                    "'" + std::string(name) + "' matches several GPUs",
                    "choose one of them: " + join(names, ", ")};
}

}  // namespace runner
