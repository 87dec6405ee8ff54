#include "stages/evaluate/roc_curve.h"

#include <algorithm>
#include <cassert>

namespace stages {

std::optional<RocCurve> roc_curve(std::vector<Detected> samples) {
  const auto positives = static_cast<double>(std::ranges::count_if(samples, &Detected::is_positive));
  const double negatives = static_cast<double>(samples.size()) - positives;
  if (positives == 0 || negatives == 0) return std::nullopt;
  std::ranges::sort(samples, std::greater{}, &Detected::score);
  RocCurve curve;
  for (auto* const shares : {&curve.false_positives, &curve.true_positives}) {
    shares->reserve(samples.size() + 1);
    shares->push_back(0);
  }
  double hits = 0, alarms = 0, twice_area = 0;
  for (std::size_t i = 0; i < samples.size();) {
    const double score = samples[i].score, hits_before = hits, alarms_before = alarms;
    for (; i < samples.size() && samples[i].score == score; ++i) ++(samples[i].is_positive ? hits : alarms);
    twice_area += (alarms - alarms_before) * (hits + hits_before);
    curve.false_positives.push_back(alarms / negatives);
    curve.true_positives.push_back(hits / positives);
  }
  curve.area = twice_area / (2 * positives * negatives);
  return curve;
}

double true_positives_at(const RocCurve& curve, double share) {
  const auto above = std::ranges::upper_bound(curve.false_positives, share);
  const auto right = static_cast<std::size_t>(above - curve.false_positives.begin());
  assert(right > 0);
  if (above == curve.false_positives.end()) return curve.true_positives.back();
  const std::size_t left = right - 1;
  const double width = curve.false_positives[right] - curve.false_positives[left];
  const double part = (share - curve.false_positives[left]) / width;
  return curve.true_positives[left] + part * (curve.true_positives[right] - curve.true_positives[left]);
}

RocCurve thinned(const RocCurve& curve, std::size_t points) {
  assert(points >= 2);
  const std::size_t last = curve.false_positives.size() - 1;
  if (last < points) return curve;
  RocCurve result{{}, {}, curve.area};
  for (std::size_t i = 0; i < points; ++i) {
    const std::size_t at = i * last / (points - 1);
    result.false_positives.push_back(curve.false_positives[at]);
    result.true_positives.push_back(curve.true_positives[at]);
  }
  return result;
}

}  // namespace stages
