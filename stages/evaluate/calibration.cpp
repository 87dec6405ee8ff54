#include "stages/evaluate/calibration.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace stages {

Calibration calibration(std::span<const Confidence> predictions, std::int64_t bins) {
  assert(!predictions.empty() && bins > 0);
  Calibration result;
  const auto edge = [&](std::int64_t i) { return static_cast<double>(i) / static_cast<double>(bins); };
  for (std::int64_t i = 0; i < bins; ++i) result.bins.push_back({edge(i), edge(i + 1)});
  for (const auto& [probability, is_correct] : predictions) {
    const auto found = std::ranges::lower_bound(result.bins, probability, {}, &Calibration::Bin::high);
    Calibration::Bin& bin = found == result.bins.end() ? result.bins.back() : *found;  // 1 + rounding
    ++bin.count;
    bin.confidence += probability;
    bin.accuracy += is_correct;
  }
  for (Calibration::Bin& bin : result.bins) {
    if (bin.count == 0) continue;
    bin.confidence /= static_cast<double>(bin.count);
    bin.accuracy /= static_cast<double>(bin.count);
    result.error += std::abs(bin.accuracy - bin.confidence) * static_cast<double>(bin.count);
  }
  result.error /= static_cast<double>(predictions.size());
  return result;
}

}  // namespace stages
