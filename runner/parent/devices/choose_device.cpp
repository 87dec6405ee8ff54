#include "runner/parent/devices/choose_device.h"

#include <algorithm>
#include <tuple>

#include "runner/parent/devices/device_models.h"
#include "runner/shared/text/bytes.h"

namespace runner {
namespace {

Diagnostic no_such_gpu(const std::string& select, const std::string& why, std::string help) {
  return {ErrorCode::kDeviceUnavailable,
          {},
          "/device/select",
          "device '" + select + "' is not available: " + why,
          std::move(help)};
}

/// Does `entry` of device.exclude mean the device at `place` of those that CUDA sees?
bool means(const std::string& entry, const DeviceFacts& device, std::size_t place) {
  return entry == std::to_string(place) || entry == device.uuid || entry == device.gpu_uuid;
}

std::string number_of_gpus(std::size_t count) {
  return count == 1 ? "there is only cuda:0" : "there are cuda:0 to cuda:" + std::to_string(count - 1);
}

}  // namespace

bool is_too_old(const DeviceFacts& device) { return device.capability > 0 && device.capability < kOldestCapability; }

bool has_room(const DeviceFacts& device, std::int64_t bytes) {
  return device.free ? *device.free >= bytes : could_have_room(device, bytes);
}

bool could_have_room(const DeviceFacts& device, std::int64_t bytes) {
  return !device.total || *device.total - device.reserved.value_or(0) >= bytes;
}

Result<MeantDevices> candidates(const DeviceWish& wish, const VisibleDevices& visible) {
  MeantDevices found{.first_choice = wish.preferred};
  const auto named = wish.index();
  const auto count = static_cast<int>(visible.devices.size());
  if (named && *named < count && !visible.in_cuda_order && count > 1) {
    return no_such_gpu(wish.select, "CUDA counts from the fastest GPU on, and which is which only CUDA knows",
                       "set CUDA_DEVICE_ORDER=PCI_BUS_ID to count as nvidia-smi does, or write device=auto");
  }
  const bool has_named = named && *named < count;
  const auto gpu = std::ranges::find(wish.fallback, "gpu"), cpu = std::ranges::find(wish.fallback, "cpu");
  const bool may_be_another = !named || gpu < cpu;
  if (named && !has_named && !(may_be_another && count > 0)) {
    return no_such_gpu(wish.select, number_of_gpus(visible.devices.size()), "use one of those, or device=cpu");
  }
  if (has_named) {
    found.devices.push_back(visible.devices[static_cast<std::size_t>(*named)]);
    found.first_choice = found.devices.front().uuid;
  }
  for (std::size_t i = 0; may_be_another && i < visible.devices.size(); ++i) {
    const DeviceFacts& device = visible.devices[i];
    const auto is_meant = [&](const std::string& entry) { return means(entry, device, i); };
    if (is_too_old(device) || std::ranges::count(wish.left, device.uuid) > 0) continue;
    if (std::ranges::any_of(wish.exclude, is_meant)) continue;
    if (!has_named || static_cast<int>(i) != *named) found.devices.push_back(device);
  }
  return found;
}

std::vector<std::string> idle_exclusions(const DeviceWish& wish, const VisibleDevices& visible) {
  std::vector<std::string> lines;
  for (const std::string& entry : wish.exclude) {
    bool is_there = false;
    for (std::size_t i = 0; i < visible.devices.size(); ++i) is_there = is_there || means(entry, visible.devices[i], i);
    if (!is_there) lines.push_back("device.exclude: no visible GPU is '" + entry + "'");
  }
  return lines;
}

std::vector<DeviceFacts> ranked(MeantDevices candidates) {
  const auto rank = [&](const DeviceFacts& device) {
    return std::tuple(device.uuid != candidates.first_choice, !device.free.has_value(), -device.free.value_or(0),
                      device.utilisation.value_or(0), device.index, device.instance.value_or(0));
  };
  std::ranges::stable_sort(candidates.devices, {}, rank);
  return std::move(candidates.devices);
}

std::string state_text(const DeviceFacts& device) {
  std::string text = device.free ? bytes_text(*device.free) : "unknown memory";
  if (device.total) text += " of " + bytes_text(*device.total);
  text += " free";
  if (device.utilisation && *device.utilisation > 0) text += ", " + std::to_string(*device.utilisation) + " % in use";
  const std::string holders = holders_text(device);
  return holders.empty() ? text : text + ", " + holders;
}

Diagnostic no_room(std::span<const DeviceFacts> candidates, const DeviceNeed& need, std::span<const std::string> taken,
                   bool has_waited) {
  const bool is_hopeless =
      std::ranges::none_of(candidates, [&](const DeviceFacts& device) { return could_have_room(device, need.bytes); });
  const std::string bytes = bytes_text(need.bytes) + (need.from.empty() ? "" : " (" + need.from + ")");
  Diagnostic error{ErrorCode::kDeviceUnavailable, {}, "/device/select", "", ""};
  if (is_hopeless) {
    error.message = "no GPU here has " + bytes;
    error.help = "`retort plan` shows what would need less; device.fallback=[cpu] allows the CPU";
  } else {
    const bool any_room =
        std::ranges::any_of(candidates, [&](const DeviceFacts& device) { return has_room(device, need.bytes); });
    error.message = any_room || need.bytes == 0 ? "every GPU that has room is in use" : "no GPU has " + bytes + " free";
    if (has_waited) error.message += " after all the time that device.wait_timeout_minutes gives";
    error.help = has_waited ? "wait longer by device.wait_timeout_minutes, or allow the CPU: device.fallback=[cpu]"
                            : "wait for one: device.wait_for_gpu=true; or allow the CPU: device.fallback=[cpu]";
  }
  for (const DeviceFacts& device : candidates) {
    const bool is_taken = std::ranges::count(taken, device.uuid) > 0;
    error.notes.push_back(
        {{}, device_text(device) + ": " + state_text(device) + (is_taken ? "; another run of yours has it" : "")});
  }
  return error;
}

}  // namespace runner
