#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "runner/parent/devices/choose_device.h"
#include "runner/parent/devices/visible_devices.h"
#include "runner/shared/disk/folder_lock.h"
#include "runner/shared/error/diagnostic.h"

namespace runner {

/// That this user's other runs leave a device alone, as long as it lives; when the process dies,
/// the kernel ends it. It holds the file DEVICE.lock of a LockFolder by flock(2).
class DeviceLock {
 public:
  /// Not a moment is waited; nullopt where another run holds the device `uuid`, in whichever way.
  static std::optional<DeviceLock> take(const LockFolder& folder, const std::string& uuid);
  /// With others that share it as well: of a device that the recipe names, which is used whoever
  /// else does. nullopt where a run has taken it for itself.
  static std::optional<DeviceLock> share(const LockFolder& folder, const std::string& uuid);

 private:
  explicit DeviceLock(Descriptor file) : file_(std::move(file)) {}
  Descriptor file_;
};

/// What choosing a device touches of the world outside.
struct DeviceWorld {
  DeviceSource& source;
  CudaVariables variables = cuda_variables();
  std::filesystem::path lock_folder = LockFolder::standard_path();
  std::string cuda =
      {};  ///< that LibTorch was built with, "13.0"; without a leading digit: it has no CUDA part
  std::function<void(const std::string&)> say;  ///< a line for the user
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
  /// Lets time pass; sooner back with the signal that has asked for the end meanwhile.
  std::function<std::optional<int>(std::chrono::steady_clock::duration)> sleep;
};

/// The device that a run computes on, for itself as long as this lives.
struct TakenDevice {
  std::string select = "cpu";              ///< as the worker is told: "cpu", "cuda:0"
  std::optional<DeviceFacts> device = {};  ///< nullopt: the CPU, or one that only CUDA knows
  std::string driver = {};                 ///< its version
  std::string why = {};                    ///< "it has the most free memory"
  bool is_only_visible =
      false;  ///< the worker is to see no other: CUDA_VISIBLE_DEVICES is its UUID
  std::optional<DeviceLock> lock = {};
};

/// What a run needs, of a device that it might be given and what is free there. Errors end the
/// search.
using NeedOf = std::function<Result<DeviceNeed>(const DeviceFacts& device)>;

/// Finds the device that `wish` asks for and takes it: the best with room for what is needed that
/// no other run of this user has. Waits for one where the wish says so: others' memory has to be
/// free at two looks in a row, and who came first is served first. Says in lines what was chosen
/// and who is waited for.
///
/// "auto" is the CPU on a machine without a usable GPU. kDeviceUnavailable where nothing is to be
/// had and the wish falls back to nothing else; kCannotCreate where locks cannot be trusted.
/// `need_of` is asked at most once, and not where the wish names the memory itself. A wait that a
/// signal ends is stopped_by() (stop.h).
Result<TakenDevice> take_device(const DeviceWish& wish, const NeedOf& need_of,
                                const DeviceWorld& world);

/// The device that a run would be given if nobody used any, without taking it, for plans.
Result<TakenDevice> likely_device(const DeviceWish& wish, const DeviceWorld& world);

/// Why CUDA cannot compute on any device of `reading`; empty: it can. `cuda`: as in DeviceWorld.
std::string why_no_gpu(const DeviceReading& reading, const std::string& cuda);

}  // namespace runner
