#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "runner/shared/text/csv.h"
#include "stages/evaluate/classification_metrics.h"
#include "stages/evaluate/predictor.h"

namespace stages {

/// One sample's logits, a class each, in float64. All are finite.
class ClassScores {
 public:
  explicit ClassScores(std::vector<double> logits);

  std::int64_t classes() const { return static_cast<std::int64_t>(logits_.size()); }
  /// The class with the largest logit; the first of equals.
  std::int64_t predicted() const;
  /// Classes that come before `label`, best first; of equals the lower index comes first. 0: it is
  /// predicted().
  std::int64_t rank(std::int64_t label) const;
  /// The `count` best classes in that order, or all if there are fewer.
  std::vector<std::int64_t> best(std::int64_t count) const;
  /// The class's share of the softmax. Two shares that are equal in exact arithmetic have the same
  /// bits on every processor: neither the order of the other classes nor what is added to all
  /// logits changes a rank.
  double probability(std::int64_t label) const;
  /// Its logarithm.
  double log_probability(std::int64_t label) const;

 private:
  std::vector<double> logits_;
  double largest_ = 0;
  double sum_ = 0;  // of the exponentials of the differences from the largest, smallest first
};

/// Row `row` of logits (n, classes) on the CPU, of any floating type.
ClassScores class_scores(const at::Tensor& logits, std::int64_t row);

using runner::csv_field;
using runner::csv_line;

/// A line each sample: name,label,predicted,correct,probability,top_1,…,top_5. The probability is
/// that of the predicted class; top_1 … are the five best classes, or all if there are fewer.
std::string predictions_csv(const ClassifiedSamples& samples,
                            const std::vector<std::string>& classes);

/// A line each true class, a column each predicted one, with names.
std::string confusion_csv(const ConfusionMatrix& confusion,
                          const std::vector<std::string>& classes);

}  // namespace stages
