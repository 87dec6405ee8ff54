#pragma once

#include <cstdint>

#include "stages/random/philox.h"

namespace stages {

/// What is drawn once: an element of a sample, or the sample as a whole.
enum class DropoutUnit { kElement, kSample };

/// Which elements of its input one layer drops at one step. A word of Philox decides, whose key is
/// the seed and whose counter is (element / 4, sample, layer, step): whether an element is dropped
/// depends on these alone, not on its neighbours, its type, its device or the order of the work. It
/// needs no torch: the CPU's loop and the GPU's kernel share these lines.
struct DropoutMask {
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  std::uint32_t layer = 0;
  double probability = 0;  ///< of being dropped, 0 to 1
  DropoutUnit unit = DropoutUnit::kElement;

  /// A word below it drops: the probability, in units of 2^-32, rounded to the nearest.
  RETORT_HOST_DEVICE std::uint64_t threshold() const {
    return static_cast<std::uint64_t>(probability * 4294967296.0 + 0.5);
  }
  bool drops_all() const { return threshold() >> 32 != 0; }
  /// What a kept element is multiplied with, so that the mean stays: 1 / (1 - probability).
  RETORT_HOST_DEVICE double scale() const { return probability < 1 ? 1 / (1 - probability) : 0; }

  /// The words of elements 4 block … 4 block + 3 of a sample.
  RETORT_HOST_DEVICE PhiloxWords words(std::uint32_t sample, std::uint32_t block) const {
    return philox({{block, sample, layer, step}}, static_cast<std::uint32_t>(seed),
                  static_cast<std::uint32_t>(seed >> 32));
  }
};

}  // namespace stages
