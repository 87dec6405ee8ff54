#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace stages {

/// One sample's logits, a class each, in float64. All are finite.
class ClassScores {
 public:
  explicit ClassScores(std::vector<double> logits);

  std::int64_t classes() const { return static_cast<std::int64_t>(logits_.size()); }
  /// The class with the largest logit; the first of equals.
  std::int64_t predicted() const;
  /// Classes that come before `label`, best first; of equals the lower index comes first. 0: it is predicted().
  std::int64_t rank(std::int64_t label) const;
  /// The `count` best classes in that order, or all if there are fewer.
  std::vector<std::int64_t> best(std::int64_t count) const;
  /// The logarithm of the class's share of the softmax.
  double log_probability(std::int64_t label) const;
  double probability(std::int64_t label) const;

 private:
  std::vector<double> logits_;
  double log_sum_ = 0;  // of the exponentials
};

/// Row `row` of logits (n, classes) on the CPU, of any floating type.
ClassScores class_scores(const at::Tensor& logits, std::int64_t row);

}  // namespace stages
