#include "runner/parent/report/bootstrap.h"

#include <algorithm>
#include <cassert>

#include "runner/shared/stage/split_mix.h"

namespace runner {

DrawnNumbers::DrawnNumbers(std::uint64_t seed) : state_(split_mix(seed + kSplitMixStep)) {}

std::size_t DrawnNumbers::below(std::uint64_t limit) {
  state_ += kSplitMixStep;
  return static_cast<std::size_t>((split_mix(state_) >> 32) * limit >> 32);
}

std::int64_t bootstrap_draws(std::int64_t samples) {
  constexpr std::int64_t kDraws = 10'000, kLeastDraws = 1'000;
  constexpr std::int64_t kMostDrawnSamples = 500'000'000;  // total over all draws; takes a few
                                                           // seconds
  return std::clamp(kMostDrawnSamples / samples, kLeastDraws, kDraws);
}

BootstrapInterval bootstrap_interval(std::vector<double>& draws) {
  assert(!draws.empty());
  std::ranges::sort(draws);
  const auto percentile = [&](double share) {
    const double at = share * static_cast<double>(draws.size() - 1);
    const auto below = static_cast<std::size_t>(at);
    const std::size_t above = std::min(below + 1, draws.size() - 1);
    return draws[below] + (at - static_cast<double>(below)) * (draws[above] - draws[below]);
  };
  return {percentile(0.025), percentile(0.975)};
}

}  // namespace runner
