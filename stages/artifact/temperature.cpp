#include "stages/artifact/temperature.h"

#include <cassert>
#include <cmath>

namespace stages {
namespace {

/// The first two derivatives of the log loss of softmax(factor * logits) with respect to the
/// factor.
struct LossSlope {
  double first = 0, second = 0;
};

LossSlope loss_slope(std::span<const ScoredClass> samples, double factor) {
  LossSlope slope;
  for (const auto& [scores, label] : samples) {
    const double largest = scores.logit(scores.predicted());
    double sum = 0, mean = 0, square = 0;  // weighted sums over the logits minus the largest
    for (std::int64_t other = 0; other < scores.classes(); ++other) {
      const double logit = scores.logit(other) - largest, share = std::exp(factor * logit);
      sum += share;
      mean += share * logit;
      square += share * logit * logit;
    }
    mean /= sum;
    slope.first += mean - (scores.logit(label) - largest);
    slope.second += square / sum - mean * mean;
  }
  return slope;
}

}  // namespace

double fitted_temperature(std::span<const ScoredClass> samples) {
  assert(!samples.empty());
  constexpr int kMostSteps = 100;
  constexpr double kPrecision = 1e-9;
  double low = 1 / kHighestTemperature, high = 1 / kLowestTemperature;
  if (loss_slope(samples, low).first >= 0) return kHighestTemperature;
  if (loss_slope(samples, high).first <= 0) return kLowestTemperature;
  double factor = 1;
  for (int step = 0; step < kMostSteps; ++step) {
    const LossSlope slope = loss_slope(samples, factor);
    (slope.first < 0 ? low : high) = factor;
    double next = factor - slope.first / slope.second;
    if (!(next > low && next < high)) next = std::sqrt(low * high);
    const bool is_found = std::abs(next - factor) <= kPrecision * factor;
    factor = next;
    if (is_found) break;
  }
  return 1 / factor;
}

}  // namespace stages
