#pragma once

#include <cstdint>
#include <functional>

#include <ATen/core/Tensor.h>

namespace stages {

/// How to fit a softmax regression.
struct SoftmaxFitOptions {
  std::int64_t classes = 0;
  double l2_strength = 1;  ///< lambda, above 0
  std::int64_t max_iterations = 1000;
  double tolerance = 1e-4;  ///< the fit has converged when no element of the gradient is larger
};

/// A linear classifier: logits = features · weightᵀ + bias.
struct SoftmaxFit {
  at::Tensor weight, bias;  ///< (classes, width) and (classes), in the features' type
  std::int64_t iterations = 0;
  double largest_gradient = 0;  ///< the largest absolute value in the gradient
  double loss = 0;              ///< the objective
};

/// Minimizes, from zero, the objective of scikit-learn's LogisticRegression(C=1/lambda):
///
///   mean of the cross-entropies + lambda / (2 n) · sum of the squared weights, without the bias
///
/// for `features` (n, width), float64 or float32 on the CPU, and `labels` (n) int64 from 0 to
/// classes - 1, using minimize() (lbfgs.h) with ten pairs of vectors, as in scikit-learn. Two
/// classes get two rows of weights, so they are fitted with a softmax, not with scikit-learn's
/// binary sigmoid. The last digits of the result may depend on the number of threads, but on
/// nothing else. `before_evaluation` is called before each evaluation of the gradient, and may
/// throw to stop.
SoftmaxFit fit_softmax(const at::Tensor& features, const at::Tensor& labels,
                       const SoftmaxFitOptions& options,
                       const std::function<void()>& before_evaluation = {});

/// Returns the share of rows for which the label has the highest logit.
double accuracy_of(const SoftmaxFit& fit, const at::Tensor& features, const at::Tensor& labels);

/// Returns an upper bound on the number of bytes that fit_softmax() and accuracy_of() allocate for
/// `rows` rows, including the result but not the features and labels.
std::int64_t softmax_fit_bytes(std::int64_t rows, std::int64_t width, std::int64_t classes,
                               std::int64_t bytes_per_number);

}  // namespace stages
