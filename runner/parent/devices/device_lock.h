#pragma once

#include <optional>
#include <string>

#include "runner/shared/disk/lock_folder.h"

namespace runner {

/// That this user's other runs leave a device alone, as long as it lives; when the process dies, the kernel ends it.
/// It holds the file DEVICE.lock of a LockFolder by flock(2).
class DeviceLock {
 public:
  /// Not a moment is waited; nullopt where another run holds the device `uuid`, in whichever way.
  static std::optional<DeviceLock> take(const LockFolder& folder, const std::string& uuid);
  /// With others that share it as well: of a device that the recipe names, which is used whoever else does. nullopt
  /// where a run has taken it for itself.
  static std::optional<DeviceLock> share(const LockFolder& folder, const std::string& uuid);

 private:
  explicit DeviceLock(Descriptor file) : file_(std::move(file)) {}
  Descriptor file_;
};

}  // namespace runner
