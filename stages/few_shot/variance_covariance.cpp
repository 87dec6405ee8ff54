#include "stages/few_shot/variance_covariance.h"

#include <cassert>
#include <cmath>
#include <stdexcept>

#include <torch/types.h>

#include "stages/numerics/precision.h"

namespace stages {
namespace {

/// Squares of halves overflow, and their sums lose what is looked for.
at::Tensor in_full_precision(const at::Tensor& features) {
  assert(features.dim() == 3);
  const bool is_half = features.scalar_type() == at::kHalf || features.scalar_type() == at::kBFloat16;
  return is_half ? features.to(at::kFloat) : features;
}

}  // namespace

at::Tensor support_variance_loss(const at::Tensor& features, double target, Deviation deviation) {
  const bool is_unbiased = deviation == Deviation::kUnbiased;
  if (is_unbiased && features.size(1) < 2) {
    throw std::invalid_argument("the unbiased deviation of one shot is not a number");
  }
  const ScopedPrecision full(Precision::kFp32, features.device());
  // By a norm, for which there is a Meta kernel, and whose gradient is 0 where nothing varies.
  const at::Tensor full_features = in_full_precision(features);
  const at::Tensor apart = full_features - full_features.mean(/*dim=*/1, /*keepdim=*/true);
  const auto count = static_cast<double>(features.size(1) - (is_unbiased ? 1 : 0));
  const at::Tensor deviations = at::linalg_vector_norm(apart, 2, /*dim=*/1) / std::sqrt(count);
  return (target - deviations).clamp_min(0).mean();
}

at::Tensor support_covariance_loss(const at::Tensor& features, CovarianceForm form) {
  const ScopedPrecision full(Precision::kFp32, features.device());
  return covariance_loss(in_full_precision(features).flatten(0, 1), form);
}

}  // namespace stages
