#include "stages/retina/ranking.h"

#include <algorithm>
#include <cstddef>

namespace stages {

std::optional<double> ranked_area(std::span<RankedSample> samples) {
  std::ranges::sort(samples, {}, &RankedSample::score);
  double first = 0, second = 0, twice_above = 0;
  for (std::size_t i = 0; i < samples.size();) {
    const double score = samples[i].score;
    double firsts = 0, seconds = 0;
    for (; i < samples.size() && samples[i].score == score; ++i) ++(samples[i].is_second ? seconds : firsts);
    twice_above += seconds * (2 * first + firsts);
    first += firsts;
    second += seconds;
  }
  if (first == 0 || second == 0) return std::nullopt;
  return twice_above / (2 * first * second);
}

}  // namespace stages
