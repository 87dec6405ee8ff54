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

/// Keeps this user's other runs off a device for the object's lifetime. If the process dies, the
/// kernel releases it. It holds the file DEVICE.lock of a LockFolder by flock(2).
class DeviceLock {
 public:
  /// Does not wait; nullopt if another run holds the device `uuid`, exclusively or shared.
  static std::optional<DeviceLock> take(const LockFolder& folder, const std::string& uuid);
  /// Shares the device with other runs that share it: for a device that the recipe names, which is
  /// used even if other runs use it. nullopt if a run holds it exclusively.
  static std::optional<DeviceLock> share(const LockFolder& folder, const std::string& uuid);

 private:
  explicit DeviceLock(Descriptor file) : file_(std::move(file)) {}
  Descriptor file_;
};

/// The parts of the environment that choosing a device needs.
struct DeviceWorld {
  DeviceSource& source;
  CudaVariables variables = cuda_variables();
  std::filesystem::path lock_folder = LockFolder::standard_path();
  std::string cuda = {};  ///< the CUDA version LibTorch was built with, "13.0"; without a leading
                          ///< digit: it has no CUDA part
  std::function<void(const std::string&)> say;  ///< prints a line for the user
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
  /// Waits that long; returns early with the signal if one asks the program to stop.
  std::function<std::optional<int>(std::chrono::steady_clock::duration)> sleep;
};

/// The device that a run computes on, held for the object's lifetime.
struct TakenDevice {
  std::string select = "cpu";              ///< as passed to the worker: "cpu", "cuda:0"
  std::optional<DeviceFacts> device = {};  ///< nullopt: the CPU, or a device that only CUDA knows
  std::string driver = {};                 ///< its version
  std::string why = {};                    ///< "it has the most free memory"
  bool is_only_visible =
      false;  ///< the worker sees no other device: CUDA_VISIBLE_DEVICES is its UUID
  std::optional<DeviceLock> lock = {};
};

/// What a run needs on a device that it might get, given what is free there. Errors end the search.
using NeedOf = std::function<Result<DeviceNeed>(const DeviceFacts& device)>;

/// Finds the device that `wish` asks for and takes it: the best one that has enough room and that
/// no other run of this user holds. Waits for one if the wish says so: memory that others use must
/// be free at two checks in a row, and runs are served in the order in which they came. Prints what
/// was chosen and which processes it waits for.
///
/// "auto" is the CPU on a machine without a usable GPU. kDeviceUnavailable if no device can be had
/// and the wish allows no fallback; kCannotCreate if locks cannot be trusted. `need_of` is called
/// at most once, and not if the wish sets the memory itself. A wait that a signal ends is
/// stopped_by() (diagnostic.h).
Result<TakenDevice> take_device(const DeviceWish& wish, const NeedOf& need_of,
                                const DeviceWorld& world);

/// Takes a GPU for each of the ranks 1, 2, ... of a run, the first rank of which has `first`. None
/// if they compute where the first does: on the CPU, or on a GPU that the recipe names. Does not
/// wait: two runs could wait for each other's GPUs. kDeviceUnavailable at /device/count if there
/// are too few.
Result<std::vector<TakenDevice>> take_for_other_ranks(const DeviceWish& wish,
                                                      const TakenDevice& first, int ranks,
                                                      const NeedOf& need_of,
                                                      const DeviceWorld& world);

/// For plans: the device that a run would get if none were in use, without taking it.
Result<TakenDevice> likely_device(const DeviceWish& wish, const DeviceWorld& world);

/// Why CUDA cannot compute on any device of `reading`; empty: it can. `cuda`: as in DeviceWorld.
std::string why_no_gpu(const DeviceReading& reading, const std::string& cuda);

}  // namespace runner
