#pragma once

#include <cstdint>
#include <span>

#include "stages/artifact/class_scores.h"

namespace stages {

/// One sample with a known class.
struct ScoredClass {
  ClassScores scores;
  std::int64_t label = 0;
};

/// The range of fitted temperatures. Without these limits, the fitted temperature would be 0 if all
/// samples were classified correctly.
inline constexpr double kLowestTemperature = 0.01, kHighestTemperature = 100;

/// Returns the temperature in that range for which softmax(logits / temperature) has the smallest
/// log loss (Guo et al. 2017, arXiv:1706.04599). The loss is convex in 1 / temperature, so Newton's
/// method within a shrinking interval finds its minimum. `samples` must not be empty.
double fitted_temperature(std::span<const ScoredClass> samples);

}  // namespace stages
