#include "runner/parent/devices/device_facts.h"

#include "runner/shared/text/bytes.h"
#include "runner/shared/text/printable.h"

namespace runner {

std::string gpu_place(const DeviceFacts& device) {
  const std::string gpu = "GPU " + std::to_string(device.index);
  return device.instance ? gpu + ", MIG instance " + std::to_string(*device.instance) : gpu;
}

std::string device_text(const DeviceFacts& device) {
  return device.name.empty() ? gpu_place(device) : gpu_place(device) + " (" + printable(device.name) + ")";
}

std::string holders_text(const DeviceFacts& device) {
  std::string text;
  for (const DeviceHolder& holder : device.holders) {
    text += (text.empty() ? "process " : ", process ") + std::to_string(holder.pid);
    if (holder.bytes) text += " (" + bytes_text(*holder.bytes) + ")";
  }
  return text;
}

}  // namespace runner
