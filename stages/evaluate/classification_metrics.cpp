#include "stages/evaluate/classification_metrics.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include <torch/types.h>

#include "stages/evaluate/class_scores.h"

namespace stages {
namespace {

double ratio(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

/// The mean of the classes' qualities under the given weights.
template <typename Weight>
ClassQuality mean(const std::vector<ClassQuality>& qualities, Weight weight) {
  ClassQuality sum;
  double weights = 0;
  for (std::size_t label = 0; label < qualities.size(); ++label) {
    const double share = static_cast<double>(weight(static_cast<std::int64_t>(label)));
    sum.precision += share * qualities[label].precision;
    sum.recall += share * qualities[label].recall;
    sum.f1 += share * qualities[label].f1;
    weights += share;
  }
  return {sum.precision / weights, sum.recall / weights, sum.f1 / weights};
}

double mean_recall_of_present(const ConfusionMatrix& confusion, const std::vector<ClassQuality>& qualities) {
  double sum = 0;
  std::int64_t present = 0;
  for (std::size_t label = 0; label < qualities.size(); ++label) {
    if (confusion.support(static_cast<std::int64_t>(label)) == 0) continue;
    sum += qualities[label].recall;
    ++present;
  }
  return sum / static_cast<double>(present);
}

}  // namespace

ClassQuality class_quality(const ConfusionMatrix& confusion, std::int64_t label) {
  const std::int64_t correct = confusion.count(label, label);
  const std::int64_t support = confusion.support(label), predictions = confusion.predictions(label);
  return {ratio(correct, predictions), ratio(correct, support), ratio(2 * correct, support + predictions)};
}

Interval wilson_interval(std::int64_t successes, std::int64_t trials) {
  assert(trials > 0);
  constexpr double kQuantile = 1.959963984540054;  // of the normal distribution at 97.5 %
  const double n = static_cast<double>(trials), share = static_cast<double>(successes) / n;
  const double square = kQuantile * kQuantile;
  const double center = (share + square / (2 * n)) / (1 + square / n);
  const double half = kQuantile / (1 + square / n) * std::sqrt(share * (1 - share) / n + square / (4 * n * n));
  return {std::max(0.0, center - half), std::min(1.0, center + half)};
}

ClassificationMetrics classification_metrics(const at::Tensor& logits, const at::Tensor& labels,
                                             const std::vector<std::int64_t>& top_k, const std::vector<bool>& present,
                                             const std::vector<std::int64_t>& predicted) {
  const std::int64_t samples = logits.size(0), classes = logits.size(1);
  assert(samples > 0 && labels.size(0) == samples);
  ClassificationMetrics metrics;
  metrics.confusion = ConfusionMatrix(classes);
  std::vector<std::int64_t> of_rank(static_cast<std::size_t>(classes));
  const at::Tensor truths = labels.contiguous();
  double log_probabilities = 0;
  for (std::int64_t row = 0; row < samples; ++row) {
    const ClassScores scores = class_scores(logits, row);
    const std::int64_t truth = truths.const_data_ptr<std::int64_t>()[row];
    metrics.confusion.add(truth, predicted.empty() ? scores.predicted() : predicted[static_cast<std::size_t>(row)]);
    ++of_rank[static_cast<std::size_t>(scores.rank(truth))];
    log_probabilities += scores.log_probability(truth);
  }

  const ConfusionMatrix& confusion = metrics.confusion;
  for (std::int64_t label = 0; label < classes; ++label) metrics.of_class.push_back(class_quality(confusion, label));
  const auto may_occur = [&](std::int64_t label) {
    return present.empty() || (label < std::ssize(present) && present[static_cast<std::size_t>(label)]);
  };
  metrics.macro = mean(metrics.of_class, [&](std::int64_t label) { return may_occur(label) ? 1 : 0; });
  metrics.weighted = mean(metrics.of_class, [&](std::int64_t label) { return confusion.support(label); });
  metrics.top1 = ratio(confusion.correct(), samples);
  for (const std::int64_t k : top_k) {
    if (k >= classes) continue;
    std::int64_t among = 0;
    for (std::int64_t rank = 0; rank < k; ++rank) among += of_rank[static_cast<std::size_t>(rank)];
    metrics.top_k.emplace_back(k, ratio(among, samples));
  }
  metrics.top1_interval = wilson_interval(confusion.correct(), samples);
  metrics.mean_per_class = mean_recall_of_present(confusion, metrics.of_class);
  metrics.log_loss = -log_probabilities / static_cast<double>(samples);
  metrics.chance = 1 / static_cast<double>(classes);
  return metrics;
}

std::vector<std::pair<std::string, double>> summary(const ClassificationMetrics& metrics) {
  std::vector<std::pair<std::string, double>> values = {{"top1", metrics.top1}};
  for (const auto& [k, share] : metrics.top_k) {
    if (k != 1) values.emplace_back("top" + std::to_string(k), share);
  }
  values.insert(values.end(), {{"mean_per_class", metrics.mean_per_class},
                               {"macro_precision", metrics.macro.precision},
                               {"macro_recall", metrics.macro.recall},
                               {"macro_f1", metrics.macro.f1},
                               {"weighted_precision", metrics.weighted.precision},
                               {"weighted_recall", metrics.weighted.recall},
                               {"weighted_f1", metrics.weighted.f1},
                               {"log_loss", metrics.log_loss},
                               {"top1_low", metrics.top1_interval.low},
                               {"top1_high", metrics.top1_interval.high},
                               {"chance", metrics.chance},
                               {"samples", static_cast<double>(metrics.confusion.samples())}});
  return values;
}

}  // namespace stages
