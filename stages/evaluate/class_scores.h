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

/// The logits of one sample, one per class, in float64. All values must be finite.
class ClassScores {
 public:
  explicit ClassScores(std::vector<double> logits);

  std::int64_t classes() const { return static_cast<std::int64_t>(logits_.size()); }
  /// Returns the class with the largest logit; ties go to the lower class.
  std::int64_t predicted() const;
  /// Returns the number of classes that rank above `label`; ties go to the lower class. 0: `label`
  /// is predicted().
  std::int64_t rank(std::int64_t label) const;
  /// Returns the `count` best classes in the order of rank(), or all classes if there are fewer.
  std::vector<std::int64_t> best(std::int64_t count) const;
  /// Returns the softmax probability of the class. Probabilities that are equal in exact arithmetic
  /// have the same bits on every processor, so ranks do not depend on the order of the other
  /// classes or on a constant added to all logits.
  double probability(std::int64_t label) const;
  /// Returns the logarithm of probability().
  double log_probability(std::int64_t label) const;

 private:
  std::vector<double> logits_;
  double largest_ = 0;
  // Sum of exp(logit - largest logit), added from the smallest up.
  double sum_ = 0;
};

/// Returns the scores in row `row` of `logits` (n, classes), on the CPU, of any floating type.
ClassScores class_scores(const at::Tensor& logits, std::int64_t row);

using runner::csv_field;
using runner::csv_line;

/// Returns a CSV with one line per sample: name,label,predicted,correct,probability,top_1,…,top_5.
/// `probability` is the predicted class's; top_1, … are the five best classes, or all classes if
/// there are fewer. If samples have groups, the last column is `group`.
std::string predictions_csv(const ClassifiedSamples& samples,
                            const std::vector<std::string>& classes);

/// Returns a CSV with one row per true class and one column per predicted class, with names.
std::string confusion_csv(const ConfusionMatrix& confusion,
                          const std::vector<std::string>& classes);

}  // namespace stages
