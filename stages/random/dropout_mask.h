#pragma once

#include <cstdint>

#include "stages/random/philox.h"

namespace stages {

/// The unit of one draw: an element of a sample, or the whole sample.
enum class DropoutUnit { kElement, kSample };

/// Which elements of its input one layer drops at one step. A word of Philox decides; its key is
/// the seed and its counter (element / 4, sample, layer, step). So whether an element is dropped
/// depends on these alone, not on its neighbours, its type, its device or the order of the work. It
/// needs no torch: the CPU loop and the GPU kernel share this code.
struct DropoutMask {
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  std::uint32_t layer = 0;
  double probability = 0;  ///< of dropping, 0 to 1
  DropoutUnit unit = DropoutUnit::kElement;

  /// A word below it drops its element: the probability in units of 2^-32, rounded to the nearest.
  RETORT_HOST_DEVICE std::uint64_t threshold() const {
    return static_cast<std::uint64_t>(probability * 4294967296.0 + 0.5);
  }
  bool drops_all() const { return threshold() >> 32 != 0; }
  /// The factor of kept elements, which preserves the mean: 1 / (1 - probability).
  RETORT_HOST_DEVICE double scale() const { return probability < 1 ? 1 / (1 - probability) : 0; }

  /// The words of elements 4 · block … 4 · block + 3 of a sample.
  RETORT_HOST_DEVICE PhiloxWords words(std::uint32_t sample, std::uint32_t block) const {
    return philox({{block, sample, layer, step}}, static_cast<std::uint32_t>(seed),
                  static_cast<std::uint32_t>(seed >> 32));
  }
};

}  // namespace stages
