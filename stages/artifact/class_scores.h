#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace stages {

/// The logits of one sample, one per class, in float64. All values must be finite.
class ClassScores {
 public:
  explicit ClassScores(std::vector<double> logits);

  std::int64_t classes() const { return static_cast<std::int64_t>(logits_.size()); }
  double logit(std::int64_t label) const { return logits_[static_cast<std::size_t>(label)]; }
  /// Returns the class with the largest logit; ties go to the lower class.
  std::int64_t predicted() const;
  /// Returns the number of classes that rank above `label`; ties go to the lower class. The result
  /// is 0 if `label` is predicted().
  std::int64_t rank(std::int64_t label) const;
  /// Returns the `count` best classes in the order of rank(), or all classes if there are fewer.
  std::vector<std::int64_t> best(std::int64_t count) const;
  /// Returns the softmax probability of the class. Probabilities that are equal in exact arithmetic
  /// have the same bits on every processor, so ranks do not depend on the order of the other
  /// classes or on a constant added to all logits.
  double probability(std::int64_t label) const;
  /// Returns the logarithm of probability().
  double log_probability(std::int64_t label) const;
  /// Returns probability() of every class.
  std::vector<double> probabilities() const;

 private:
  std::vector<double> logits_;
  double largest_ = 0;
  // Sum of exp(logit - largest logit), added in ascending order.
  double sum_ = 0;
};

/// Returns the scores in one row of `logits`, of shape (n, classes) and any floating-point type, on
/// the CPU.
ClassScores class_scores(const at::Tensor& logits, std::int64_t row);

}  // namespace stages
