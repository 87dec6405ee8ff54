#include "runner/parent/devices/take_device.h"

#include <algorithm>
#include <charconv>

#include "runner/parent/devices/device_search.h"
#include "runner/shared/text/join.h"

namespace runner {

std::optional<DeviceLock> DeviceLock::take(const LockFolder& folder, const std::string& uuid) {
  Descriptor file = folder.file(uuid + ".lock");
  if (!try_lock(file)) return std::nullopt;
  return DeviceLock(std::move(file));
}

std::optional<DeviceLock> DeviceLock::share(const LockFolder& folder, const std::string& uuid) {
  Descriptor file = folder.file(uuid + ".lock");
  if (!try_lock(file, /*is_shared=*/true)) return std::nullopt;
  return DeviceLock(std::move(file));
}

namespace {

/// Returns 13 for "13.0"; 0 if there is no number.
int major_version(const std::string& version) {
  int major = 0;
  std::from_chars(version.data(), version.data() + version.size(), major);
  return major;
}

Diagnostic unusable(const DeviceRequest& request, const std::string& why, const std::string& help) {
  return {ErrorCode::kDeviceUnavailable,
          {},
          "/device/select",
          "device '" + request.select + "' is not available: " + why,
          help.empty() ? "use device=cpu; `retort doctor` shows what this machine has" : help};
}

TakenDevice the_cpu(const DeviceWorld& world, const std::string& why) {
  world.say("device: cpu, since " + why);
  return {.why = why};
}

/// Returns the result if the request is for a GPU but no GPU can be used.
Result<TakenDevice> without_gpu(const DeviceRequest& request, const std::string& why,
                                const std::string& help, const DeviceWorld& world) {
  if (request.select == "auto") return the_cpu(world, why);
  if (request.may_fall_back_to("cpu")) return the_cpu(world, why + " (device.fallback)");
  return unusable(request, why, help);
}

/// The devices visible to CUDA; if there are none, the reason why.
struct MachineLook {
  DeviceReading reading;
  VisibleDevices visible;
  std::string why_none = {};  ///< empty: there are devices to choose from
  std::string help = {};
};

Result<MachineLook> look_at_devices(const DeviceWorld& world) {
  MachineLook look{.reading = world.source.read(), .visible = {}};
  look.why_none = why_no_gpu(look.reading, world.cuda);
  const bool is_outdated = look.reading.why_none.empty() && major_version(world.cuda) > 0;
  look.help = is_outdated ? "update the NVIDIA driver, or use device=cpu" : look.reading.help;
  if (!look.why_none.empty()) return look;
  auto visible = visible_devices(look.reading, world.variables);
  if (!visible) return visible.errors();
  look.visible = *std::move(visible);
  look.help.clear();
  if (!look.visible.devices.empty()) return look;
  look.why_none = !look.visible.remark.empty() ? look.visible.remark
                  : look.reading.problems.empty()
                      ? "the NVIDIA driver found no GPU"
                      : "no GPU can be used: " + join(look.reading.problems, "; ");
  if (!look.visible.remark.empty())
    look.help = "`retort devices` lists the entries that CUDA_VISIBLE_DEVICES may contain";
  return look;
}

/// True if only CUDA may know about the GPU, as on NVIDIA's small computers, which have CUDA but
/// not NVML. Its name is then passed on as written, and the worker reports what is wrong with it.
bool is_unknown_to_us(const DeviceRequest& request, const MachineLook& look) {
  const bool cannot_be_asked =
      !look.reading.why_none.empty() && look.why_none == look.reading.why_none;
  return request.select != "auto" && cannot_be_asked &&
         (look.reading.has_driver || !request.may_fall_back_to("cpu"));
}

/// True if the request specifies more than the name of the device.
bool needs_check(const DeviceRequest& request) {
  return !request.index() || request.need || request.wait || !request.fallback.empty();
}

/// Takes cuda:K, even if other runs compute there.
TakenDevice as_named(const DeviceRequest& request, const MachineLook& look,
                     const DeviceWorld& world) {
  TakenDevice taken{
      .select = request.select, .driver = look.reading.driver, .why = "the recipe specifies it"};
  const auto place = static_cast<std::size_t>(*request.index());
  const bool is_known = look.visible.devices.size() == 1 || look.visible.in_cuda_order;
  if (!is_known || place >= look.visible.devices.size()) return taken;  // CUDA decides
  taken.device = look.visible.devices[place];
  const auto folder = LockFolder::open(world.lock_folder);
  if (folder) taken.lock = DeviceLock::share(*folder, taken.device->uuid);
  if (folder && !taken.lock)
    world.say("device: another run of yours is using " + device_text(*taken.device) + " too");
  return taken;
}

std::string why_nothing_is_left(const DeviceRequest& request, const VisibleDevices& visible) {
  if (!request.left.empty()) return "the run has tried every GPU that it may use";
  const bool all_are_old = std::ranges::all_of(visible.devices, is_too_old);
  return all_are_old
             ? "LibTorch does not run on GPUs as old as " + device_text(visible.devices.front())
             : "device.exclude leaves no GPU";
}

}  // namespace

std::string why_no_gpu(const DeviceReading& reading, const std::string& cuda) {
  const int built = major_version(cuda);
  if (built == 0) return "this worker was built without CUDA support";
  if (!reading.why_none.empty()) return reading.why_none;
  if (reading.cuda == 0 || reading.cuda / 1000 >= built) return "";
  return "the NVIDIA driver" + (reading.driver.empty() ? "" : " " + reading.driver) +
         " is too old: it supports CUDA up to " + std::to_string(reading.cuda / 1000) + "." +
         std::to_string(reading.cuda % 1000 / 10) + ", but this LibTorch needs " + cuda;
}

Result<TakenDevice> take_device(const DeviceRequest& request, const NeedOf& need_of,
                                const DeviceWorld& world) {
  if (!request.is_gpu()) return TakenDevice{};
  const auto look = look_at_devices(world);
  if (!look && !needs_check(request))
    return TakenDevice{.select = request.select, .why = "the recipe specifies it"};
  if (!look) return look.errors();
  if (is_unknown_to_us(request, *look)) {
    if (look->reading.has_driver)
      world.say("device: " + request.select + ", which could not be checked: " + look->why_none);
    return TakenDevice{.select = request.select, .why = look->why_none};
  }
  if (!look->why_none.empty()) return without_gpu(request, look->why_none, look->help, world);
  if (!look->visible.remark.empty()) world.say(look->visible.remark);
  for (const std::string& line : idle_exclusions(request, look->visible)) world.say(line);
  if (!needs_check(request)) return as_named(request, *look, world);
  const auto found = candidates(request, look->visible);
  if (!found && request.may_fall_back_to("cpu"))
    return the_cpu(world, found.errors().front().message + " (device.fallback)");
  if (!found) return found.errors();
  if (found->devices.empty())
    return without_gpu(request, why_nothing_is_left(request, look->visible),
                       "use device=cpu, or exclude fewer GPUs", world);
  const auto folder = LockFolder::open(world.lock_folder);
  if (!folder) return folder.errors();
  auto taken = DeviceSearch(request, need_of, world, *folder).run(*found);
  if (taken) taken->driver = look->reading.driver;
  else if (request.may_fall_back_to("cpu") &&
           taken.errors().front().code == ErrorCode::kDeviceUnavailable)
    return the_cpu(world, taken.errors().front().message + " (device.fallback)");
  return taken;
}

namespace {

Diagnostics too_few(int ranks, std::size_t found, Diagnostics errors) {
  for (Diagnostic& error : errors) {
    error.pointer = "/device/count";
    error.message = "device.count is " + std::to_string(ranks) +
                    ", and each rank needs its own GPU, but only " + std::to_string(found) +
                    " can be used" + (error.notes.empty() ? "" : ": " + error.message);
    error.help = "set device.count: " + std::to_string(found) + ", or device.select: cpu";
  }
  return errors;
}

}  // namespace

Result<std::vector<TakenDevice>> take_for_other_ranks(const DeviceRequest& request,
                                                      const TakenDevice& first, int ranks,
                                                      const NeedOf& need_of,
                                                      const DeviceWorld& world) {
  std::vector<TakenDevice> others;
  const bool is_shared = request.index() && !request.may_fall_back_to("gpu");
  if (!first.is_only_visible || is_shared) return others;
  DeviceRequest next = request;
  next.select = "cuda";
  next.wait = false;
  next.fallback.clear();
  next.left.push_back(first.device->uuid);
  for (int rank = 1; rank < ranks; ++rank) {
    auto taken = take_device(next, need_of, world);
    if (!taken) return too_few(ranks, others.size() + 1, taken.errors());
    next.left.push_back(taken->device->uuid);
    others.push_back(*std::move(taken));
  }
  return others;
}

Result<TakenDevice> likely_device(const DeviceRequest& request, const DeviceWorld& world) {
  if (!request.is_gpu()) return TakenDevice{};
  const auto look = look_at_devices(world);
  if (!look && request.index())
    return TakenDevice{.select = request.select, .why = "the recipe specifies it"};
  if (!look) return look.errors();
  if (is_unknown_to_us(request, *look)) return TakenDevice{.select = request.select};
  if (!look->why_none.empty()) return without_gpu(request, look->why_none, look->help, world);
  if (request.index())
    return TakenDevice{.select = request.select, .why = "the recipe specifies it"};
  const auto found = candidates(request, look->visible);
  if (!found) return found.errors();
  if (found->devices.empty())
    return without_gpu(request, why_nothing_is_left(request, look->visible),
                       "use device=cpu, or exclude fewer GPUs", world);
  return TakenDevice{.select = "cuda:0",
                     .device = ranked(*found).front(),
                     .driver = look->reading.driver,
                     .why = "it has the most free memory",
                     .is_only_visible = true};
}

Result<std::vector<DeviceFacts>> gpus_for_ranks(const DeviceRequest& request,
                                                const DeviceWorld& world) {
  std::vector<DeviceFacts> none;
  if (!request.is_gpu() || request.index()) return none;
  const auto look = look_at_devices(world);
  if (!look) return look.errors();
  if (is_unknown_to_us(request, *look) || !look->why_none.empty()) return none;
  auto found = candidates(request, look->visible);
  if (!found) return found.errors();
  return ranked(*std::move(found));
}

}  // namespace runner
