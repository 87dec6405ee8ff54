#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace stages {

/// The candidate values for a strength: logarithmically spaced from `least` to `most`, inclusive.
struct StrengthRange {
  double least = 1e-6, most = 1e6;
  std::int64_t per_decade = 8;

  /// Returns the number of values.
  std::int64_t size() const;
  double at(std::int64_t index) const;
};

/// A strength, and the accuracy of the classifier fitted with it.
struct MeasuredStrength {
  double strength = 0, accuracy = 0;
  bool operator==(const MeasuredStrength&) const = default;
};

/// Searches a range as the CLIP authors did (Radford et al. 2021, arXiv:2103.00020, appendix A.3):
/// it first measures values that are a factor of 100 apart, and the largest value. Then it
/// repeatedly halves the distance, and measures the two values at that distance from the best one
/// so far, until they are its direct neighbors. If accuracies are equal, the larger strength is
/// better. `accuracies` measures the strengths of one round, which do not depend on each other.
/// Returns all measurements in order.
std::vector<MeasuredStrength> search_strength(
    const StrengthRange& range,
    const std::function<std::vector<double>(const std::vector<double>& strengths)>& accuracies);

/// Returns the best measurement. There must be one.
MeasuredStrength best_of(const std::vector<MeasuredStrength>& measured);

}  // namespace stages
