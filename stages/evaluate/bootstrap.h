#pragma once

#include <cstdint>
#include <vector>

namespace stages {

/// A 95 % interval.
struct NumberInterval {
  double low = 0, high = 0;
};

/// Returns how often each of `samples` samples occurs in one draw of a bootstrap, which picks
/// `samples` of them with replacement. The result is a function of `seed` and `draw`.
std::vector<std::int32_t> bootstrap_times(std::int64_t samples, std::uint64_t seed,
                                          std::int64_t draw);

/// Returns the 2.5th and 97.5th percentiles of `draws`, interpolated linearly, like numpy's
/// percentile. Sorts `draws`, of which there must be at least one.
NumberInterval percentile_interval(std::vector<double>& draws);

}  // namespace stages
