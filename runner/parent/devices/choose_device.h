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

/// The `device` section of a recipe: which device to compute on, and what to do if it is taken.
struct DeviceWish {
  std::string select = "cpu";             ///< "auto", "cpu", "cuda" or "cuda:K"
  std::vector<std::string> exclude = {};  ///< indices among the visible GPUs, and UUIDs
  std::optional<std::int64_t> need =
      {};             ///< bytes that must be free; nullopt: what the run's plan needs
  bool wait = false;  ///< wait for a device to be free
  std::chrono::duration<double> timeout{}, interval{};
  std::vector<std::string> fallback = {};  ///< "gpu" and "cpu", in order of preference
  /// The UUID of the device that a resumed run was computed on, or empty. It is preferred over
  /// other devices with room.
  std::string preferred = {};
  std::vector<std::string> left =
      {};  ///< UUIDs of GPUs that the run has left because they ran out of memory: never chosen

  bool may_fall_back_to(std::string_view where) const;
  /// The K of "cuda:K".
  std::optional<int> index() const;
  bool is_gpu() const { return select != "cpu"; }
};

/// The wish of a run that cannot continue on the GPUs `left` and needs another one: `wish`,
/// ignoring the device that it names.
DeviceWish wish_for_another(DeviceWish wish, std::vector<std::string> left);

/// Reads the wish from a recipe with its defaults filled in, validated by a schema.
DeviceWish device_wish(const Value& recipe);

/// Memory that a run needs, and the source of that number: "device.min_gpu_memory_mb", "the plan of
/// train".
struct DeviceNeed {
  std::int64_t bytes = 0;
  std::string from = {};
};

/// True if LibTorch's CUDA 13 build has no code for the device: it needs Turing or later, compute
/// capability 7.5.
bool is_too_old(const DeviceFacts& device);
/// True if `bytes` are free on `device`. If the free memory is unknown, compares with the total.
bool has_room(const DeviceFacts& device, std::int64_t bytes);
/// True if `bytes` could become free.
bool could_have_room(const DeviceFacts& device, std::int64_t bytes);

/// The devices that a wish allows.
struct MeantDevices {
  std::vector<DeviceFacts> devices = {};
  std::string first_choice =
      {};  ///< the UUID of the one to prefer over others that have room; empty: none
};

/// The devices that `wish` allows, except those it excludes, those it has left and those that are
/// too old: for cuda:K that device and, if it may fall back to another GPU, all. kDeviceUnavailable
/// if cuda:K does not exist or cannot be identified; empty if nothing is left.
Result<MeantDevices> candidates(const DeviceWish& wish, const VisibleDevices& visible);
/// Exclusions in `wish` that match no device: "device.exclude: there is no GPU '7'".
std::vector<std::string> idle_exclusions(const DeviceWish& wish, const VisibleDevices& visible);

/// Best first: the preferred one, then by most free memory, lowest utilisation, lowest index.
/// Devices whose free memory is unknown come last.
std::vector<DeviceFacts> ranked(MeantDevices candidates);

/// "70.1 GiB of 79.2 GiB free, 12 % in use, process 4711 (9.0 GiB)".
std::string state_text(const DeviceFacts& device);

/// The error that none of `candidates` has room for `need` now or, if that is so, ever. `taken`:
/// UUIDs of devices that other runs of this user hold. The notes say what each lacks.
Diagnostic no_room(std::span<const DeviceFacts> candidates, const DeviceNeed& need,
                   std::span<const std::string> taken, bool has_waited);

/// A GPU model that can be planned for without having one.
struct DeviceModel {
  std::string_view name;          ///< "NVIDIA L4"
  std::int64_t memory = 0;        ///< bytes that CUDA can allocate
  std::string_view architecture;  ///< "Ada Lovelace"
  int capability = 0;             ///< compute capability times ten: 89
  std::string_view source;        ///< the source of the memory size, an address
};

/// All known models, by generation. LibTorch's CUDA 13 build runs on Turing and later,
/// kOldestCapability.
///
/// The memory is the "total capacity" in a report from that GPU. It is less than the data sheet
/// says if error correction or the driver use a part; drivers differ by some hundred MiB. Without a
/// report, it is the data sheet's size in units of 10^9 bytes, which is below what reports from
/// such GPUs say. If a model is sold with several sizes, the plain name means the smallest. Compute
/// capabilities are those of https://developer.nvidia.com/cuda-gpus.
std::span<const DeviceModel> device_models();

inline constexpr int kOldestCapability = 75;

/// The name as one word, without the parts that all names share: "RTX-4090".
std::string short_name(const DeviceModel& model);

/// Finds the model by its name or by words that no other name has ("l4", "rtx 4090"), ignoring
/// case. kUsage with the nearest names if none or more than one matches.
Result<const DeviceModel*> device_model(std::string_view name);

}  // namespace runner
