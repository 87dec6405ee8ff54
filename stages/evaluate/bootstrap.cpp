#include "stages/evaluate/bootstrap.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "stages/random/random.h"

namespace stages {
namespace {

/// Interpolates between the two nearest sorted values.
double quantile(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], place - std::floor(place));
}

}  // namespace

std::vector<std::int32_t> bootstrap_times(std::int64_t samples, std::uint64_t seed,
                                          std::int64_t draw) {
  std::vector<std::int32_t> times(static_cast<std::size_t>(samples));
  Random random({seed, static_cast<std::uint64_t>(draw)});
  for (std::int64_t i = 0; i < samples; ++i)
    ++times[static_cast<std::size_t>(random.below(samples))];
  return times;
}

NumberInterval percentile_interval(std::vector<double>& draws) {
  constexpr double kOutside = 0.025;
  std::ranges::sort(draws);
  return {quantile(draws, kOutside), quantile(draws, 1 - kOutside)};
}

}  // namespace stages
