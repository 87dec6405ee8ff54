#pragma once

#include <cstdint>
#include <vector>

namespace stages {

/// A 95% confidence interval.
struct NumberInterval {
  double low = 0, high = 0;
};

/// Returns how many times each of `samples` samples occurs in one bootstrap draw, which picks
/// `samples` of them with replacement. The result is a function of `seed` and `draw`.
std::vector<std::int32_t> bootstrap_times(std::int64_t samples, std::uint64_t seed,
                                          std::int64_t draw);

/// Returns the 2.5th and 97.5th percentiles of `draws`, interpolated linearly, like numpy's
/// percentile. `draws` must not be empty, and is sorted in place.
NumberInterval percentile_interval(std::vector<double>& draws);

}  // namespace stages
