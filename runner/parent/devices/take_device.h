#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runner/parent/devices/choose_device.h"
#include "runner/parent/devices/visible_devices.h"
#include "runner/shared/disk/folder_lock.h"
#include "runner/shared/error/diagnostic.h"

namespace runner {

/// Keeps this user's other runs from using a device for the object's lifetime, with flock(2) on the
/// file DEVICE.lock of a LockFolder. If the process dies, the kernel releases the lock.
class DeviceLock {
 public:
  /// Does not wait; nullopt if another run holds the device `uuid`, exclusively or shared.
  static std::optional<DeviceLock> take(const LockFolder& folder, const std::string& uuid);
  /// Shares the device with other runs. Used for a device that the recipe specifies, even if other
  /// runs are using it. nullopt if another run holds it exclusively.
  static std::optional<DeviceLock> share(const LockFolder& folder, const std::string& uuid);

 private:
  explicit DeviceLock(Descriptor file) : file_(std::move(file)) {}
  Descriptor file_;
};

/// What is needed from the environment to choose a device.
struct DeviceWorld {
  DeviceSource& source;
  CudaVariables variables = cuda_variables();
  std::filesystem::path lock_folder = LockFolder::standard_path();
  /// The CUDA version that LibTorch was built with, "13.0"; none if it does not start with a digit.
  std::string cuda = {};
  std::function<void(const std::string&)> say;  ///< prints a line for the user
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
  /// Waits for a duration; returns early with the signal if one asks the program to stop.
  std::function<std::optional<int>(std::chrono::steady_clock::duration)> sleep;
};

/// The device that a run computes on, held for the object's lifetime.
struct TakenDevice {
  std::string select = "cpu";              ///< the worker's name for it: "cpu", "cuda:0"
  std::optional<DeviceFacts> device = {};  ///< nullopt for the CPU, or for a device known only to
                                           ///< CUDA
  std::string driver = {};                 ///< driver version
  std::string why = {};                    ///< "it has the most free memory"
  /// The worker sees no other device: CUDA_VISIBLE_DEVICES is set to its UUID.
  bool is_only_visible = false;
  std::optional<DeviceLock> lock = {};
};

/// Returns the memory that a run needs on a candidate device, given the free memory on it. Errors
/// end the search.
using NeedOf = std::function<Result<DeviceNeed>(const DeviceFacts& device)>;

/// Takes the best device that `request` allows, has enough free memory and is not held by another
/// of this user's runs. Waits for one if the request says so: memory that others were using must be
/// found free at two checks in a row, and runs are served in order of arrival. Prints what was
/// chosen, and which processes it is waiting for.
///
/// "auto" means the CPU on a machine without a usable GPU. kDeviceUnavailable if no device is
/// available and the request allows no fallback; kCannotCreate if locks cannot be relied on. Calls
/// `need_of` at most once, and never if the request sets the memory itself. If a signal ends the
/// wait, returns stopped_by() (diagnostic.h).
Result<TakenDevice> take_device(const DeviceRequest& request, const NeedOf& need_of,
                                const DeviceWorld& world);

/// Takes a GPU for each of the ranks 1, 2, ... of a run in which rank 0 has `first`. Returns an
/// empty list if they use the same device as rank 0: the CPU, or a GPU named in the recipe. Does
/// not wait, because two runs could wait for each other's GPUs. Returns kDeviceUnavailable at
/// /device/count if there are too few.
Result<std::vector<TakenDevice>> take_for_other_ranks(const DeviceRequest& request,
                                                      const TakenDevice& first, int ranks,
                                                      const NeedOf& need_of,
                                                      const DeviceWorld& world);

/// Returns the device that a run would get if no device were in use, without taking it. Used for
/// plans.
Result<TakenDevice> likely_device(const DeviceRequest& request, const DeviceWorld& world);

/// Returns the GPUs that the ranks of a run may get, the one with the most free memory first. Empty
/// if all ranks use the same device, or if only CUDA knows the devices.
Result<std::vector<DeviceFacts>> gpus_for_ranks(const DeviceRequest& request,
                                                const DeviceWorld& world);

/// Returns why CUDA cannot compute on any device of `reading`; empty if it can. `cuda` is as in
/// DeviceWorld.
std::string why_no_gpu(const DeviceReading& reading, const std::string& cuda);

}  // namespace runner
