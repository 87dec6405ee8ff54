#include "runner/parent/devices/device_lock.h"

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

}  // namespace runner
