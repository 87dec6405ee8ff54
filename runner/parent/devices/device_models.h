#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "runner/shared/error/result.h"

namespace runner {

/// A GPU that can be planned for where it is not.
struct DeviceModel {
  std::string_view name;          ///< "NVIDIA L4"
  std::int64_t memory = 0;        ///< bytes that CUDA can give out
  std::string_view architecture;  ///< "Ada Lovelace"
  int capability = 0;             ///< compute capability, ten times: 89
  std::string_view source;        ///< where the memory's size is from, an address
};

/// All that are known, by generation. LibTorch's CUDA 13 build runs on Turing and later, kOldestCapability.
///
/// The memory is the "total capacity" in a report of that GPU, which is less than its data sheet says where error
/// correction or the driver take a part; drivers differ by some hundred MiB. Where no report is at hand it is the data
/// sheet's size in units of 10^9 bytes, which is below what reports of such GPUs say.
/// Of a model that is sold with several sizes the smallest one goes by its name alone.
/// Compute capabilities are those of https://developer.nvidia.com/cuda-gpus.
std::span<const DeviceModel> device_models();

inline constexpr int kOldestCapability = 75;

/// Its name as one word without what all have: "RTX-4090".
std::string short_name(const DeviceModel& model);

/// The one that `name` means: its name, or words of it that no other has ("l4", "rtx 4090"), in any case. kUsage with
/// the nearest names where there is none or more than one.
Result<const DeviceModel*> device_model(std::string_view name);

}  // namespace runner
