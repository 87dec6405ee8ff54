#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace stages {

class RankGroup;

/// The measurements of a classifier that was fitted with one strength.
struct MeasuredFit {
  double strength = 0;
  double accuracy = 0;  ///< accuracy on the validation data
  std::int64_t steps = 0;
  double largest_gradient = 0, loss = 0;
  bool operator==(const MeasuredFit&) const = default;
};

/// Divides fits with different strengths among the ranks. Returns what `fit` returns for each
/// strength, on all ranks. `fit` is called only for the strengths of this rank, one after another.
/// `group` is null if there is only one rank.
std::vector<MeasuredFit> divided_fits(const std::vector<double>& strengths, RankGroup* group,
                                      const std::function<MeasuredFit(double strength)>& fit);

}  // namespace stages
