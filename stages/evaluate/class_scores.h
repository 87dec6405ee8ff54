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

/// One sample's logits, one per class, in float64. All values are finite.
class ClassScores {
 public:
  explicit ClassScores(std::vector<double> logits);

  std::int64_t classes() const { return static_cast<std::int64_t>(logits_.size()); }
  /// The class with the largest logit; ties go to the first.
  std::int64_t predicted() const;
  /// The number of classes ranked before `label`, best first; ties go to the lower index. 0:
  /// `label` is predicted().
  std::int64_t rank(std::int64_t label) const;
  /// The `count` best classes in the order of rank(), or all if there are fewer.
  std::vector<std::int64_t> best(std::int64_t count) const;
  /// The softmax probability of the class. Two probabilities that are equal in exact arithmetic
  /// have the same bits on every processor: a rank does not depend on the order of the other
  /// classes or on a constant added to all logits.
  double probability(std::int64_t label) const;
  /// The logarithm of probability().
  double log_probability(std::int64_t label) const;

 private:
  std::vector<double> logits_;
  double largest_ = 0;
  double sum_ = 0;  // sum of the exponentials of the differences from the largest logit, smallest
                    // first
};

/// Row `row` of logits (n, classes) on the CPU, of any floating type.
ClassScores class_scores(const at::Tensor& logits, std::int64_t row);

using runner::csv_field;
using runner::csv_line;

/// One line per sample: name,label,predicted,correct,probability,top_1,…,top_5. The probability is
/// that of the predicted class; top_1 … are the five best classes, or all if there are fewer.
std::string predictions_csv(const ClassifiedSamples& samples,
                            const std::vector<std::string>& classes);

/// One row per true class, one column per predicted class, with names.
std::string confusion_csv(const ConfusionMatrix& confusion,
                          const std::vector<std::string>& classes);

}  // namespace stages
