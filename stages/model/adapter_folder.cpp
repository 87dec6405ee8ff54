#include "stages/model/adapter_folder.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <stdexcept>

#include <torch/nn/module.h>
#include <torch/utils.h>
#include <nlohmann/json.hpp>

#include "runner/shared/disk/descriptor.h"
#include "runner/shared/disk/new_file.h"
#include "runner/shared/stage/stage.h"
#include "runner/shared/value/parse_json.h"
#include "stages/tensor/tensor_memory.h"
#include "stages/weights/safetensors.h"
#include "stages/weights/saved_weights.h"

namespace stages {
namespace {

namespace fs = std::filesystem;
using runner::ErrorCode;
using runner::StageError;

constexpr const char* kPeftPrefix = "base_model.model.";
constexpr const char* kConfigFile = "adapter_config.json";
constexpr const char* kWeightsFile = "adapter_model.safetensors";
constexpr const char* kHeadFile = "head.safetensors";
constexpr const char* kClassesFile = "classes.json";
constexpr const char* kOrdinal = "ordinal";  // in the metadata of the file with the head

[[noreturn]] void damaged_adapter(const fs::path& path, const std::string& why,
                                  const std::string& help = "") {
  throw StageError(ErrorCode::kDamagedWeights, "'" + path.string() + "' cannot be used: " + why)
      .at("/adapter")
      .with_help(help);
}

std::string read_text(const fs::path& path) {
  constexpr std::uintmax_t kMost = 1 << 24;
  std::error_code error;
  const bool is_file = fs::is_regular_file(path, error);
  const std::uintmax_t size = is_file ? fs::file_size(path, error) : 0;
  if (!is_file || error) damaged_adapter(path, "it is not a readable file");
  if (size > kMost)
    damaged_adapter(path, "it has " + std::to_string(size) + " bytes, which is too many");
  std::ifstream file = runner::open_regular(path, std::ios::binary);
  std::string text(size, '\0');
  file.read(text.data(), static_cast<std::streamsize>(size));
  if (!file) damaged_adapter(path, "it cannot be read");
  return text;
}

/// Returns `folder` itself, or its only subfolder that contains an adapter.
fs::path adapter_in(const fs::path& folder) {
  std::error_code error;
  if (fs::exists(folder / kConfigFile, error)) return folder;
  std::vector<std::string> named;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code of_entry;
    if (fs::exists(entry->path() / kConfigFile, of_entry))
      named.push_back(entry->path().filename().string());
  }
  if (named.size() == 1) return folder / named.front();
  if (named.empty()) {
    throw StageError(ErrorCode::kMissingWeights,
                     "'" + folder.string() + "' contains no adapter: it has no " + kConfigFile)
        .at("/adapter")
        .with_help("use a folder written by peft's save_pretrained");
  }
  std::ranges::sort(named);
  std::string list;
  for (const std::string& name : named) list += (list.empty() ? "" : ", ") + name;
  throw StageError(ErrorCode::kMissingWeights,
                   "'" + folder.string() + "' contains several adapters: " + list)
      .at("/adapter")
      .with_help("use the folder of one of them");
}

std::vector<std::string> read_classes(const fs::path& path) {
  const auto json = runner::parse_json<nlohmann::json>(read_text(path));
  if (!json.is_array()) damaged_adapter(path, "it is not a list of names");
  std::vector<std::string> classes;
  for (const auto& item : json) {
    if (!item.is_string()) damaged_adapter(path, "it is not a list of names");
    classes.push_back(item.get<std::string>());
  }
  return classes;
}

/// Returns the kind of ordinal head that is recorded in the metadata of a weights file.
OrdinalHead ordinal_in(const fs::path& file, const std::map<std::string, std::string>& metadata) {
  const auto entry = metadata.find(kOrdinal);
  if (entry == metadata.end()) return OrdinalHead::kNone;
  const auto head = ordinal_head_named(entry->second);
  if (!head) damaged_adapter(file, "its metadata contain an unknown head for ordered classes");
  return *head;
}

std::map<std::string, std::string> metadata_for(OrdinalHead ordinal) {
  std::map<std::string, std::string> metadata = {{"format", "pt"}};
  if (ordinal != OrdinalHead::kNone) metadata[kOrdinal] = name_of(ordinal);
  return metadata;
}

/// Returns the head with these tensors from `file`, and the classes from classes.json next to it.
AdapterHead checked_head(const fs::path& file, const at::Tensor& weight, const at::Tensor& bias,
                         OrdinalHead ordinal) {
  if (weight.dim() != 2 || bias.dim() != 1 || weight.size(0) != bias.size(0))
    damaged_adapter(file, "the weight and the bias of its head do not match");
  AdapterHead head{weight, bias, {}, ordinal};
  const fs::path classes = file.parent_path() / kClassesFile;
  std::error_code error;
  if (!fs::exists(classes, error)) return head;
  head.classes = read_classes(classes);
  const std::int64_t known = bias.size(0) + (ordinal == OrdinalHead::kNone ? 0 : 1);
  if (static_cast<std::int64_t>(head.classes.size()) != known) {
    damaged_adapter(classes, "it names " + std::to_string(head.classes.size()) +
                                 " classes, but the head has " + std::to_string(known));
  }
  return head;
}

std::optional<AdapterHead> read_head(const fs::path& folder) {
  std::error_code error;
  const fs::path path = folder / kHeadFile;
  if (!fs::exists(path, error)) return std::nullopt;
  const auto [tensors, metadata] = read_safetensors(path);
  if (tensors.size() != 2 || !tensors.contains("weight") || !tensors.contains("bias"))
    damaged_adapter(path, "a head must have exactly two tensors, 'weight' and 'bias'");
  return checked_head(path, tensors.at("weight"), tensors.at("bias"), ordinal_in(path, metadata));
}

/// Returns the path of adapter_model.safetensors or, if only that exists, of adapter_model.bin,
/// which peft wrote before version 0.7.
fs::path weights_in(const fs::path& folder) {
  std::error_code error;
  const fs::path legacy = folder / "adapter_model.bin";
  return !fs::exists(folder / kWeightsFile, error) && fs::exists(legacy, error)
             ? legacy
             : folder / kWeightsFile;
}

/// Returns the name of the module that a tensor of an adapter file belongs to.
std::string module_of(std::string name) {
  for (const std::string end : {".lora_A.weight", ".lora_B.weight", ".base_layer.bias"}) {
    if (name.ends_with(end)) return name.substr(0, name.size() - end.size());
  }
  return name.substr(0, std::min(name.rfind('.'), name.size()));
}

/// Returns "3 tensors missing: a, b, c", with the first few names.
std::string counted(const std::vector<std::string>& names, const std::string& what) {
  constexpr std::size_t kShown = 4;
  std::string text =
      std::to_string(names.size()) + (names.size() == 1 ? " tensor " : " tensors ") + what + ": ";
  for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i)
    text += (i == 0 ? "" : ", ") + names[i];
  return names.size() > kShown ? text + ", …" : text;
}

std::string shape(const at::Tensor& tensor) {
  std::string text;
  for (const std::int64_t size : tensor.sizes())
    text += (text.empty() ? "" : " x ") + std::to_string(size);
  return text.empty() ? "a number" : text;
}

bool is_of_text_tower(const std::string& name) {
  return name.starts_with("text_model.") || name.starts_with("text_projection.");
}

/// The differences between an adapter file and a network's adapters.
struct Misfits {
  std::vector<std::string> missing, unexpected, shapes, of_text;

  Misfits(const NamedTensors& wanted, const NamedTensors& saved) {
    for (const auto& [name, tensor] : wanted) {
      if (!saved.contains(name)) missing.push_back(kPeftPrefix + name);
      else if (saved.at(name).sizes() != tensor.sizes())
        shapes.push_back(kPeftPrefix + name + " (" + shape(saved.at(name)) + ", not " +
                         shape(tensor) + ")");
    }
    for (const auto& [name, tensor] : saved) {
      if (!wanted.contains(name))
        (is_of_text_tower(name) ? of_text : unexpected).push_back(kPeftPrefix + name);
    }
  }
  std::string text() const {
    std::string result;
    const auto add = [&](const std::vector<std::string>& names, const char* what) {
      if (!names.empty()) result += (result.empty() ? "" : "; ") + counted(names, what);
    };
    add(missing, "missing");
    add(unexpected, "unexpected");
    add(shapes, "with a different shape");
    return result;
  }
};

std::string plain_number(double number) {
  std::string text = std::to_string(number);
  text.erase(text.find_last_not_of('0') + 1);
  return text.ends_with('.') ? text.substr(0, text.size() - 1) : text;
}

std::string described(const ChosenLayer& layer) {
  return "rank " + std::to_string(layer.rank) + " and scaling " + plain_number(layer.scaling);
}

/// Describes the first difference between the layers that a saved adapter selects (`there`) and the
/// layers that have an adapter in the network (`here`); empty if there is none.
std::string difference(const std::vector<ChosenLayer>& there,
                       const std::vector<ChosenLayer>& here) {
  for (const ChosenLayer& layer : there) {
    const auto own = std::ranges::find(here, layer.module, &ChosenLayer::module);
    if (own == here.end())
      return "'" + layer.module + "' has an adapter in the file, but not in the model";
    if (*own != layer)
      return "'" + layer.module + "' has " + described(layer) + " in the file, but " +
             described(*own) + " in the model";
  }
  for (const ChosenLayer& layer : here) {
    if (std::ranges::find(there, layer.module, &ChosenLayer::module) == there.end())
      return "'" + layer.module + "' has an adapter in the model, but not in the file";
  }
  return "";
}

/// Returns the tensors of plain adapters that are equivalent to those of `lora`, under their names
/// in adapter files.
NamedTensors plain_tensors(const AttachedLora& lora, const ModuleNames& names) {
  NamedTensors tensors = adapter_tensors(lora, names);
  const torch::NoGradGuard no_graph;
  for (const LoraLayer& layer : lora.layers) {
    const LoraAdapter& adapter = *layer.layer->adapter();
    if (!adapter.is_principal()) continue;
    const LowRank both = adapter.factors();
    tensors.set(*names(layer.module) + ".lora_A.weight", both.a);
    tensors.set(*names(layer.module) + ".lora_B.weight", both.b);
  }
  return tensors;
}

void write(const fs::path& folder, const LoraOptions& options, const AdapterBase& base,
           const NamedTensors& named, const std::map<std::string, std::string>& metadata,
           runner::Storage& storage) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw StageError(ErrorCode::kCannotCreate,
                     "cannot create the folder '" + folder.string() + "': " + error.message());
  }
  std::vector<NamedTensors::Item> tensors;
  for (const auto& [name, tensor] : named) tensors.emplace_back(kPeftPrefix + name, tensor);
  write_safetensors(folder / kWeightsFile, NamedTensors(std::move(tensors)), metadata, storage);
  const AdapterConfig config{without_principal(options), base.base_class, base.parent_library,
                             base.name_or_path, base.revision};
  runner::write_atomically(folder / kConfigFile, to_text(config), storage);
}

void write_classes(const fs::path& folder, const std::vector<std::string>& classes,
                   runner::Storage& storage) {
  if (classes.empty()) return;
  const nlohmann::json json = classes;
  runner::write_atomically(
      folder / kClassesFile,
      json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n", storage);
}

}  // namespace

SavedAdapter read_adapter(const fs::path& folder) {
  SavedAdapter adapter;
  adapter.folder = adapter_in(folder);
  const fs::path config = adapter.folder / kConfigFile;
  try {
    adapter.config = parse_adapter_config(read_text(config));
  } catch (const std::invalid_argument& why) {
    damaged_adapter(config, why.what());
  }
  const fs::path weights = weights_in(adapter.folder);
  std::vector<NamedTensors::Item> tensors;
  for (const auto& [name, tensor] : read_saved_weights(weights.string()).tensors) {
    if (!name.starts_with(kPeftPrefix))
      damaged_adapter(weights,
                      "the tensor '" + name + "' does not begin with '" + kPeftPrefix + "'");
    tensors.emplace_back(name.substr(std::string_view(kPeftPrefix).size()), tensor);
  }
  adapter.tensors = NamedTensors(std::move(tensors));
  adapter.head = read_head(adapter.folder);
  return adapter;
}

std::size_t names_of_adapter(const SavedAdapter& adapter, const torch::nn::Module& network,
                             std::span<const ModuleNames> libraries) {
  std::size_t best = 0, most = 0;
  const auto modules = network.named_modules("", /*include_self=*/false);
  for (std::size_t i = 0; i < libraries.size(); ++i) {
    std::set<std::string> known;
    for (const auto& module : modules) {
      if (const auto name = libraries[i](module.key())) known.insert(*name);
    }
    const auto count = std::ranges::count_if(adapter.tensors, [&](const NamedTensors::Item& item) {
      return known.contains(module_of(item.first));
    });
    if (static_cast<std::size_t>(count) <= most) continue;
    most = static_cast<std::size_t>(count);
    best = i;
  }
  if (most == 0) {
    damaged_adapter(adapter.folder, adapter.tensors.size() == 0
                                        ? "it has no tensors"
                                        : "it is for another network: this one has no module '" +
                                              module_of(adapter.tensors.begin()->first) + "'");
  }
  return best;
}

void take_head(SavedAdapter& saved, const ModuleNames& names) {
  const std::optional<std::string> name = names("head");
  if (!name || !saved.tensors.contains(*name + ".weight") ||
      !saved.tensors.contains(*name + ".bias"))
    return;
  const at::Tensor weight = saved.tensors.at(*name + ".weight"),
                   bias = saved.tensors.at(*name + ".bias");
  const fs::path file = weights_in(saved.folder);
  const OrdinalHead ordinal =
      file.extension() == ".safetensors"
          ? ordinal_in(file, read_safetensors(file, WeightContents::kShapes).metadata)
          : OrdinalHead::kNone;
  saved.head = checked_head(file, weight, bias, ordinal);
  std::vector<NamedTensors::Item> others;
  for (const auto& item : saved.tensors) {
    if (!item.first.starts_with(*name + ".")) others.push_back(item);
  }
  saved.tensors = NamedTensors(std::move(others));
}

std::vector<std::string> load_adapter(const AttachedLora& lora, const SavedAdapter& saved,
                                      const ModuleNames& names) {
  if (saved.config.options.dora != lora.options.dora) {
    damaged_adapter(saved.folder,
                    std::string("the adapter ") + (lora.options.dora ? "has no" : "has") +
                        " magnitudes (DoRA), but the model " +
                        (lora.options.dora ? "trains them" : "has none"),
                    std::string("set dora: ") + (lora.options.dora ? "false" : "true"));
  }
  const auto chosen = chosen_layers(lora, saved.config.options, names);
  if (const std::string text = difference(chosen, adapted_layers(lora)); !text.empty())
    damaged_adapter(saved.folder, text,
                    "set rank, alpha and targets in the recipe to the adapter's values");
  const NamedTensors own = adapter_tensors(lora, names);
  const Misfits misfits(own, saved.tensors);
  if (const std::string text = misfits.text(); !text.empty()) {
    damaged_adapter(saved.folder, text,
                    "use an unmodified adapter for this network; nothing was loaded from this one");
  }
  const torch::NoGradGuard no_graph;
  for (const auto& [name, tensor] : own) {
    if (has_memory(tensor)) tensor.copy_(saved.tensors.at(name));
  }
  std::vector<std::string> notes = saved.config.notes;
  if (!misfits.of_text.empty()) {
    const std::size_t count = misfits.of_text.size();
    notes.push_back(std::to_string(count) + (count == 1 ? " tensor" : " tensors") +
                    " of the adapter in '" + saved.folder.string() + "' " +
                    (count == 1 ? "is" : "are") + " left out: this model has no CLIP text tower");
  }
  return notes;
}

void save_head(const fs::path& folder, const AdapterHead& head, runner::Storage& storage) {
  write_safetensors(folder / kHeadFile, {{"bias", head.bias}, {"weight", head.weight}},
                    metadata_for(head.ordinal), storage);
  write_classes(folder, head.classes, storage);
}

void save_adapter(const fs::path& folder, const AttachedLora& lora, const ModuleNames& names,
                  const AdapterBase& base, const std::optional<AdapterHead>& head,
                  runner::Storage& storage) {
  write(folder, options_for(lora, names), base, plain_tensors(lora, names),
        metadata_for(OrdinalHead::kNone), storage);
  if (head) save_head(folder, *head, storage);
}

void save_adapter_with_head(const fs::path& folder, const AttachedLora& lora,
                            const ModuleNames& names, const AdapterBase& base,
                            const AdapterHead& head, runner::Storage& storage) {
  const std::optional<std::string> name = names("head");
  if (!name) {
    throw StageError(ErrorCode::kOptionConflict, "this layout has no module for a head")
        .with_help("save the head next to the adapter");
  }
  LoraOptions options = options_for(lora, names);
  NamedTensors tensors = plain_tensors(lora, names);
  tensors.set(*name + ".weight", head.weight);
  tensors.set(*name + ".bias", head.bias);
  if (std::ranges::find(options.modules_to_save, *name) == options.modules_to_save.end())
    options.modules_to_save.push_back(*name);
  write(folder, options, base, tensors, metadata_for(head.ordinal), storage);
  write_classes(folder, head.classes, storage);
}

}  // namespace stages
