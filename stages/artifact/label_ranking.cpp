#include "stages/artifact/label_ranking.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace stages {
namespace {

/// Calls `accept(score, samples, positives)` for each distinct score, from the highest down, with
/// the number of samples and the number of positives that have at least that score.
void for_thresholds(std::span<ScoredLabel> samples,
                    const std::function<void(double, std::int64_t, std::int64_t)>& accept) {
  std::ranges::sort(samples, std::greater{}, &ScoredLabel::score);
  std::int64_t positives = 0;
  for (std::size_t i = 0; i < samples.size();) {
    const double score = samples[i].score;
    for (; i < samples.size() && samples[i].score == score; ++i)
      positives += samples[i].is_positive ? 1 : 0;
    accept(score, static_cast<std::int64_t>(i), positives);
  }
}

}  // namespace

std::optional<double> average_precision(std::span<ScoredLabel> samples) {
  double sum = 0;
  std::int64_t before = 0;
  for_thresholds(samples, [&](double, std::int64_t accepted, std::int64_t positives) {
    sum += static_cast<double>(positives - before) * static_cast<double>(positives) /
           static_cast<double>(accepted);
    before = positives;
  });
  if (before == 0) return std::nullopt;
  return sum / static_cast<double>(before);
}

std::optional<PrecisionRecallCurve> precision_recall_curve(std::span<ScoredLabel> samples) {
  const auto all = static_cast<double>(std::ranges::count_if(samples, &ScoredLabel::is_positive));
  if (all == 0) return std::nullopt;
  PrecisionRecallCurve curve{.recall = {0}, .precision = {1}};
  for_thresholds(samples, [&](double, std::int64_t accepted, std::int64_t positives) {
    const auto hits = static_cast<double>(positives);
    const double recall = hits / all;
    if (recall == curve.recall.back()) return;
    curve.recall.push_back(recall);
    curve.precision.push_back(hits / static_cast<double>(accepted));
  });
  return curve;
}

std::optional<double> best_threshold(std::span<ScoredLabel> samples) {
  const std::int64_t all = std::ranges::count_if(samples, &ScoredLabel::is_positive);
  if (all == 0) return std::nullopt;
  std::optional<double> best;
  // F1 is 2 hits / (accepted + all), so fractions are compared as products of integers.
  std::int64_t best_hits = 0, best_below = 1;
  for_thresholds(samples, [&](double score, std::int64_t accepted, std::int64_t hits) {
    const std::int64_t below = accepted + all;
    if (best && hits * best_below < best_hits * below) return;
    best = score;
    best_hits = hits;
    best_below = below;
  });
  return best;
}

double label_probability(double logit) { return 1 / (1 + std::exp(-logit)); }

}  // namespace stages
