#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runner/parent/devices/visible_devices.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/value/value.h"

namespace runner {

/// The `device` section of a recipe: which device to compute on, and what to do if it is in use.
struct DeviceRequest {
  std::string select = "cpu";             ///< "auto", "cpu", "cuda" or "cuda:K"
  std::vector<std::string> exclude = {};  ///< indices among the visible GPUs, or UUIDs
  /// Bytes that must be free; nullopt: what the run's plan needs.
  std::optional<std::int64_t> need = {};
  bool wait = false;  ///< wait for a free device
  std::chrono::duration<double> timeout{}, interval{};
  std::vector<std::string> fallback = {};  ///< "gpu" and "cpu", in order of preference
  /// The UUID of the device that a resumed run used before, or empty. Preferred over other devices
  /// with enough free memory.
  std::string preferred = {};
  /// UUIDs of GPUs that the run left because they ran out of memory; never chosen again.
  std::vector<std::string> left = {};

  bool may_fall_back_to(std::string_view where) const;
  /// Returns the K of "cuda:K"; nullopt for other values of `select`.
  std::optional<int> index() const;
  bool is_gpu() const { return select != "cpu"; }
};

/// Returns the request of a run that needs a GPU other than those in `left`: `request` without its
/// choice of a specific device.
DeviceRequest request_for_another(DeviceRequest request, std::vector<std::string> left);

/// Reads the `device` section of a recipe that has been validated and has its defaults filled in.
DeviceRequest device_request(const Value& recipe);

/// The memory that a run needs, and the source of the number: "device.min_gpu_memory_mb", "the plan
/// of train".
struct DeviceNeed {
  std::int64_t bytes = 0;
  std::string from = {};
};

/// True if LibTorch's CUDA 13 build has no code for the device. It supports Turing (compute
/// capability 7.5) and later.
bool is_too_old(const DeviceFacts& device);
/// True if `bytes` are free on `device`, or fit in its total memory if the free memory is unknown.
bool has_room(const DeviceFacts& device, std::int64_t bytes);
/// True if `bytes` would fit if no other process used the device.
bool could_have_room(const DeviceFacts& device, std::int64_t bytes);

/// The devices that a request allows.
struct MeantDevices {
  std::vector<DeviceFacts> devices = {};
  /// The UUID of the device to prefer over others that have room; empty: none.
  std::string first_choice = {};
};

/// Returns the devices that `request` allows, except excluded devices, devices in its `left` and
/// devices that are too old. For cuda:K, returns that device and, if falling back to another GPU is
/// allowed, all others. kDeviceUnavailable if cuda:K does not exist or cannot be identified; empty
/// if no device is left.
Result<MeantDevices> candidates(const DeviceRequest& request, const VisibleDevices& visible);
/// Returns a line for each exclusion that matches no device: "device.exclude: no visible GPU is
/// '7'".
std::vector<std::string> idle_exclusions(const DeviceRequest& request,
                                         const VisibleDevices& visible);

/// Sorts the devices, best first: the preferred one, then by free memory (most first), utilization
/// (lowest first) and index. Devices with unknown free memory come last.
std::vector<DeviceFacts> ranked(MeantDevices candidates);

/// Returns "70.1 GiB of 79.2 GiB free, 12% in use, process 4711 (9.0 GiB)".
std::string state_text(const DeviceFacts& device);

/// Returns the error if none of `candidates` has room for `need`, now or ever. `taken` contains the
/// UUIDs of devices held by this user's other runs. The notes describe each device.
Diagnostic no_room(std::span<const DeviceFacts> candidates, const DeviceNeed& need,
                   std::span<const std::string> taken, bool has_waited);

/// A GPU model for which a run can be planned without access to such a GPU.
struct DeviceModel {
  std::string_view name;          ///< "NVIDIA L4"
  std::int64_t memory = 0;        ///< bytes that CUDA can allocate
  std::string_view architecture;  ///< "Ada Lovelace"
  int capability = 0;             ///< compute capability times ten: 89
  std::string_view source;        ///< URL of the source for the memory size
};

/// Returns all known models, by generation. LibTorch's CUDA 13 build requires Turing or newer (see
/// kOldestCapability).
///
/// `memory` is the "total capacity" that the GPU reports, which is lower than the data sheet's
/// figure if ECC or the driver reserves some of it, and varies by a few hundred MiB between
/// drivers. If no report is available, it is the data sheet's figure in units of 10^9 bytes, which
/// is less than what such GPUs report. If a model is sold with several memory sizes, the name
/// without a suffix means the smallest. Compute capabilities are from
/// https://developer.nvidia.com/cuda-gpus.
std::span<const DeviceModel> device_models();

inline constexpr int kOldestCapability = 75;

/// Returns the name as one word, without the parts common to all names: "RTX-4090".
std::string short_name(const DeviceModel& model);

/// Finds a model by its name, or by words that no other name contains ("l4", "rtx 4090"), ignoring
/// case. kUsage with the closest names if no model or more than one matches.
Result<const DeviceModel*> device_model(std::string_view name);

}  // namespace runner
