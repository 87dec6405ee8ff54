#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runner/parent/devices/device_wish.h"
#include "runner/parent/devices/visible_devices.h"
#include "runner/shared/error/result.h"

namespace runner {

/// Memory that a run needs, and who says so: "device.min_gpu_memory_mb", "the plan of train".
struct DeviceNeed {
  std::int64_t bytes = 0;
  std::string from = {};
};

/// Whether LibTorch's CUDA 13 build has no code for it: it begins with Turing, compute capability 7.5.
bool is_too_old(const DeviceFacts& device);
/// Whether `bytes` are free on `device`; of one that does not say what is free, whether it has as many at all.
bool has_room(const DeviceFacts& device, std::int64_t bytes);
/// Whether `bytes` could be free some time.
bool could_have_room(const DeviceFacts& device, std::int64_t bytes);

/// The devices that a wish means.
struct MeantDevices {
  std::vector<DeviceFacts> devices = {};
  std::string first_choice = {};  ///< the UUID of the one to take before others that have room; empty: none
};

/// Those that `wish` means, without those it excludes, those it has left and those that are too old: of cuda:K that one
/// and, where it may fall back to another GPU, all. kDeviceUnavailable where cuda:K is not there or cannot be told from
/// the others; none where nothing is left.
Result<MeantDevices> candidates(const DeviceWish& wish, const VisibleDevices& visible);
/// What `wish` excludes that is not there: "device.exclude: there is no GPU '7'".
std::vector<std::string> idle_exclusions(const DeviceWish& wish, const VisibleDevices& visible);

/// Best first: the first choice, then by most free memory, lowest utilisation, lowest index; those that do not say what
/// is free come last.
std::vector<DeviceFacts> ranked(MeantDevices candidates);

/// "70.1 GiB of 79.2 GiB free, 12 % in use, process 4711 (9.0 GiB)".
std::string state_text(const DeviceFacts& device);

/// Nothing among `candidates` has room for `need` now or, where that is so, ever. `taken`: UUIDs of those that other
/// runs of this user hold. What each lacks is in the notes.
Diagnostic no_room(std::span<const DeviceFacts> candidates, const DeviceNeed& need, std::span<const std::string> taken,
                   bool has_waited);

}  // namespace runner
