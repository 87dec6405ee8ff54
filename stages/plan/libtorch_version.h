#pragma once

#include <cstdint>

#include <torch/headeronly/version.h>

/// The differences between the supported versions of LibTorch that affect plans. Measured on CPUs
/// with 2.11.0 and 2.15.0, using the tests in stages/plan.
namespace stages::libtorch {

inline constexpr bool kIsLaterThan211 = TORCH_VERSION_MAJOR > 2 ||
                                        (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR > 11);

/// The number of columns in the strip that oneDNN packs for a float32 product.
inline constexpr std::int64_t kPackedColumns = kIsLaterThan211 ? 80 : 64;

/// True if the backward pass of GroupNorm keeps a contiguous copy of the gradient of its output,
/// and two sums per sample and channel, until it is done.
inline constexpr bool kGroupNormCopiesGradient = kIsLaterThan211;

}  // namespace stages::libtorch
