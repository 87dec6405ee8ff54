#pragma once

#include <cstdint>

#include "stages/random/philox.h"

namespace stages {

/// The unit that is dropped or kept: an element of a sample, or the whole sample.
enum class DropoutUnit { kElement, kSample };

/// Decides which elements of its input a layer drops, using a Philox word with the seed as key and
/// (element / 4, sample, layer, step) as counter. Whether an element is dropped therefore does not
/// depend on its neighbors, its type, its device or the order of computation. Step and samples are
/// not part of the mask: a kernel reads them from the device's memory, so that a CUDA graph can be
/// replayed for others. This header does not use LibTorch: the CPU loop and the GPU kernel share
/// it.
struct DropoutMask {
  std::uint64_t seed = 0;
  std::uint32_t layer = 0;
  double probability = 0;  ///< probability of dropping, 0 to 1
  DropoutUnit unit = DropoutUnit::kElement;

  /// An element is dropped if its word is below this threshold: the probability in units of 2^-32,
  /// rounded to nearest.
  RETORT_HOST_DEVICE std::uint64_t threshold() const {
    return static_cast<std::uint64_t>(probability * 4294967296.0 + 0.5);
  }
  bool drops_all() const { return threshold() >> 32 != 0; }
  /// The factor for kept elements, 1 / (1 - probability), which preserves the mean.
  RETORT_HOST_DEVICE double scale() const { return probability < 1 ? 1 / (1 - probability) : 0; }

  /// Returns the words of elements 4 · block … 4 · block + 3 of a sample at a step.
  RETORT_HOST_DEVICE PhiloxWords words(std::uint32_t step, std::uint32_t sample,
                                       std::uint32_t block) const {
    return philox({{block, sample, layer, step}}, static_cast<std::uint32_t>(seed),
                  static_cast<std::uint32_t>(seed >> 32));
  }
};

}  // namespace stages
