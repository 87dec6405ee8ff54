#include "runner/parent/devices/visible_devices.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "runner/shared/text/printable.h"
#include "runner/shared/text/units.h"

namespace runner {

std::string gpu_place(const DeviceFacts& device) {
  const std::string gpu = "GPU " + std::to_string(device.index);
  return device.instance ? gpu + ", MIG instance " + std::to_string(*device.instance) : gpu;
}

std::string device_text(const DeviceFacts& device) {
  return device.name.empty() ? gpu_place(device)
                             : gpu_place(device) + " (" + printable(device.name) + ")";
}

std::string holders_text(const DeviceFacts& device) {
  std::string text;
  for (const DeviceHolder& holder : device.holders) {
    text += (text.empty() ? "process " : ", process ") + std::to_string(holder.pid);
    if (holder.bytes) text += " (" + bytes_text(*holder.bytes) + ")";
  }
  return text;
}

namespace {

std::optional<std::string> variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? std::optional<std::string>(value) : std::nullopt;
}

std::string_view unpadded(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

std::vector<std::string_view> entries_of(std::string_view list) {
  std::vector<std::string_view> entries;
  if (unpadded(list).empty()) return entries;
  for (std::size_t end; (end = list.find(',')) != list.npos; list.remove_prefix(end + 1))
    entries.push_back(unpadded(list.substr(0, end)));
  entries.push_back(unpadded(list));
  return entries;
}

std::optional<int> index_from(std::string_view text) {
  int index = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  if (error != std::errc{} || end != text.data() + text.size() || index < 0) return std::nullopt;
  return index;
}

/// Returns the GPUs by number; a partitioned GPU is represented by its first instance.
std::vector<const DeviceFacts*> whole_gpus(const DeviceReading& reading) {
  std::vector<const DeviceFacts*> gpus;
  for (const DeviceFacts& device : reading.devices) {
    if (gpus.empty() || gpus.back()->index != device.index) gpus.push_back(&device);
  }
  return gpus;
}

/// True if CUDA's own order, fastest first, is the same as PCI bus order, because no GPU is faster
/// than another.
bool are_alike(const std::vector<const DeviceFacts*>& gpus) {
  return std::ranges::all_of(gpus, [&](const DeviceFacts* gpu) {
    return !gpu->name.empty() && gpu->name == gpus.front()->name &&
           gpu->total == gpus.front()->total;
  });
}

/// Returns the only device with a UUID that begins with `text`, or the first device on the only GPU
/// with such a UUID; null if there is none or more than one.
const DeviceFacts* with_uuid(const std::vector<DeviceFacts>& devices, std::string_view text) {
  const bool is_instance = text.starts_with("MIG-");
  if (!is_instance && !text.starts_with("GPU-")) return nullptr;
  const DeviceFacts* found = nullptr;
  for (const DeviceFacts& device : devices) {
    const std::string& uuid = is_instance ? device.uuid : device.gpu_uuid;
    if (!uuid.starts_with(text)) continue;
    if (found && (is_instance || found->index != device.index)) return nullptr;
    if (!found) found = &device;  // on a partitioned GPU, CUDA uses the first instance
  }
  return found;
}

/// Returns a remark on why CUDA sees only part of the list.
std::string cut_short(std::string_view list, const std::string& why, bool is_first) {
  return "CUDA_VISIBLE_DEVICES='" + printable(list) + "': " + why + ", so CUDA sees " +
         (is_first ? "no GPU" : "only the GPUs before it");
}

Diagnostic unknown_order(std::string_view list) {
  return {ErrorCode::kDeviceUnavailable,
          {},
          "/device/select",
          "CUDA_VISIBLE_DEVICES='" + printable(list) +
              "' numbers GPUs starting with the fastest, an order known only to CUDA if there are "
              "several models",
          "set CUDA_DEVICE_ORDER=PCI_BUS_ID to number GPUs as nvidia-smi does, or list UUIDs "
          "(`nvidia-smi -L`)"};
}

}  // namespace

CudaVariables cuda_variables() {
  return {variable("CUDA_VISIBLE_DEVICES"), variable("CUDA_DEVICE_ORDER")};
}

Result<VisibleDevices> visible_devices(const DeviceReading& reading,
                                       const CudaVariables& variables) {
  const std::vector<const DeviceFacts*> gpus = whole_gpus(reading);
  const bool by_bus = variables.order == "PCI_BUS_ID" || are_alike(gpus);
  VisibleDevices visible;
  if (!variables.visible) {
    visible.devices = reading.devices;
    visible.in_cuda_order = by_bus && gpus.size() == reading.devices.size();
    return visible;
  }
  const std::string& list = *variables.visible;
  const std::vector<std::string_view> entries = entries_of(list);
  if (entries.empty()) {
    visible.remark = "CUDA_VISIBLE_DEVICES is empty, which hides all GPUs";
    return visible;
  }
  bool has_indices = false;
  for (const std::string_view entry : entries) {
    const bool is_first = visible.devices.empty();
    const auto index = index_from(entry);
    has_indices = has_indices || index;
    // A lost GPU keeps its number.
    const auto found =
        std::ranges::find_if(gpus, [&](const DeviceFacts* gpu) { return gpu->index == index; });
    const DeviceFacts* device =
        index ? (found == gpus.end() ? nullptr : *found) : with_uuid(reading.devices, entry);
    const auto is_same = [&](const DeviceFacts& other) { return other.uuid == device->uuid; };
    const std::string shown = "'" + printable(entry) + "'";
    const std::string why = entry.empty() ? "an entry is empty"
                            : !device     ? shown + " does not match any GPU of this machine"
                            : std::ranges::any_of(visible.devices, is_same)
                                ? shown + " lists a GPU for the second time"
                                : "";
    if (!why.empty()) {
      visible.remark = cut_short(list, why, is_first);
      break;
    }
    visible.devices.push_back(*device);
  }
  if (!has_indices || by_bus) return visible;
  visible.in_cuda_order = false;
  if (visible.devices.size() == gpus.size()) return visible;  // all GPUs, in any order
  return unknown_order(list);
}

}  // namespace runner
