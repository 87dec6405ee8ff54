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

/// The `device` section of a recipe: where it is to compute, and what to do where that is taken.
struct DeviceWish {
  std::string select = "cpu";             ///< "auto", "cpu", "cuda" or "cuda:K"
  std::vector<std::string> exclude = {};  ///< indices among the visible GPUs, and UUIDs
  std::optional<std::int64_t> need =
      {};             ///< bytes that must be free; nullopt: what the run's plan says
  bool wait = false;  ///< for a device to be free
  std::chrono::duration<double> timeout{}, interval{};
  std::vector<std::string> fallback = {};  ///< of "gpu" and "cpu", in order
  /// The UUID of the device that a resumed run has computed on: taken before others that have room
  /// as well. Or empty.
  std::string preferred = {};
  std::vector<std::string> left =
      {};  ///< UUIDs of those that the run has left since their memory ran out: never taken

  bool may_fall_back_to(std::string_view where) const;
  /// The K of "cuda:K".
  std::optional<int> index() const;
  bool is_gpu() const { return select != "cpu"; }
};

/// That of a run which cannot go on on the GPUs `left`, for another one: as `wish`, whatever device
/// that names.
DeviceWish wish_for_another(DeviceWish wish, std::vector<std::string> left);

/// That of a recipe with its defaults filled in, as a schema has checked it.
DeviceWish device_wish(const Value& recipe);

/// Memory that a run needs, and who says so: "device.min_gpu_memory_mb", "the plan of train".
struct DeviceNeed {
  std::int64_t bytes = 0;
  std::string from = {};
};

/// Whether LibTorch's CUDA 13 build has no code for it: it begins with Turing, compute
/// capability 7.5.
bool is_too_old(const DeviceFacts& device);
/// Whether `bytes` are free on `device`; of one that does not say what is free, whether it has as
/// many at all.
bool has_room(const DeviceFacts& device, std::int64_t bytes);
/// Whether `bytes` could be free some time.
bool could_have_room(const DeviceFacts& device, std::int64_t bytes);

/// The devices that a wish means.
struct MeantDevices {
  std::vector<DeviceFacts> devices = {};
  std::string first_choice =
      {};  ///< the UUID of the one to take before others that have room; empty: none
};

/// Those that `wish` means, without those it excludes, those it has left and those that are too
/// old: of cuda:K that one and, where it may fall back to another GPU, all. kDeviceUnavailable
/// where cuda:K is not there or cannot be told from the others; none where nothing is left.
Result<MeantDevices> candidates(const DeviceWish& wish, const VisibleDevices& visible);
/// What `wish` excludes that is not there: "device.exclude: there is no GPU '7'".
std::vector<std::string> idle_exclusions(const DeviceWish& wish, const VisibleDevices& visible);

/// Best first: the first choice, then by most free memory, lowest utilisation, lowest index; those
/// that do not say what is free come last.
std::vector<DeviceFacts> ranked(MeantDevices candidates);

/// "70.1 GiB of 79.2 GiB free, 12 % in use, process 4711 (9.0 GiB)".
std::string state_text(const DeviceFacts& device);

/// Nothing among `candidates` has room for `need` now or, where that is so, ever. `taken`: UUIDs of
/// those that other runs of this user hold. What each lacks is in the notes.
Diagnostic no_room(std::span<const DeviceFacts> candidates, const DeviceNeed& need,
                   std::span<const std::string> taken, bool has_waited);

/// A GPU that can be planned for where it is not.
struct DeviceModel {
  std::string_view name;          ///< "NVIDIA L4"
  std::int64_t memory = 0;        ///< bytes that CUDA can give out
  std::string_view architecture;  ///< "Ada Lovelace"
  int capability = 0;             ///< compute capability, ten times: 89
  std::string_view source;        ///< where the memory's size is from, an address
};

/// All that are known, by generation. LibTorch's CUDA 13 build runs on Turing and later,
/// kOldestCapability.
///
/// The memory is the "total capacity" in a report of that GPU, which is less than its data sheet
/// says where error correction or the driver take a part; drivers differ by some hundred MiB. Where
/// no report is at hand it is the data sheet's size in units of 10^9 bytes, which is below what
/// reports of such GPUs say. Of a model that is sold with several sizes the smallest one goes by
/// its name alone. Compute capabilities are those of https://developer.nvidia.com/cuda-gpus.
std::span<const DeviceModel> device_models();

inline constexpr int kOldestCapability = 75;

/// Its name as one word without what all have: "RTX-4090".
std::string short_name(const DeviceModel& model);

/// The one that `name` means: its name, or words of it that no other has ("l4", "rtx 4090"), in any
/// case. kUsage with the nearest names where there is none or more than one.
Result<const DeviceModel*> device_model(std::string_view name);

}  // namespace runner
