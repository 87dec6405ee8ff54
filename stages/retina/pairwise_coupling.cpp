#include "stages/retina/pairwise_coupling.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace stages {

std::vector<double> couple(const std::vector<PairOpinion>& opinions, std::int64_t classes) {
  // A class that never wins would only tend to 0.
  constexpr double kLeast = 1e-7, kClose = 1e-13;
  constexpr int kMostRounds = 10'000;
  const auto n = static_cast<std::size_t>(classes);
  std::vector<double> wins(n, 0), count(n * n, 0);
  for (const auto& [first, second, share] : opinions) {
    const auto i = static_cast<std::size_t>(first), j = static_cast<std::size_t>(second);
    const double kept = std::clamp(share, kLeast, 1 - kLeast);
    wins[i] += kept;
    wins[j] += 1 - kept;
    ++count[i * n + j];
    ++count[j * n + i];
  }
  std::vector<double> p(n);
  double all = 0;
  for (const double won : wins) all += won;
  for (std::size_t i = 0; i < n; ++i) p[i] = wins[i] / all;
  for (int round = 0; round < kMostRounds; ++round) {
    double moved = 0;
    for (std::size_t i = 0; i < n; ++i) {
      double expected = 0;
      for (std::size_t j = 0; j < n; ++j) {
        if (count[i * n + j] > 0) expected += count[i * n + j] * p[i] / (p[i] + p[j]);
      }
      if (expected <= 0) continue;
      const double factor = wins[i] / expected;
      moved = std::max(moved, std::abs(factor - 1));
      p[i] *= factor;
    }
    double sum = 0;
    for (const double share : p) sum += share;
    for (double& share : p) share /= sum;
    if (moved < kClose) break;
  }
  return p;
}

}  // namespace stages
