#pragma once

#include <ATen/core/Tensor.h>

#include "stages/train/classification_loss.h"

namespace stages {

// Losses that are added to an episode's cross-entropy and keep the features of its support images
// apart: VICReg's variance and covariance (Bardes, Ponce and LeCun 2022, arXiv:2105.04906) of
// features (ways, shots, d), before prototypes are computed. Each is a differentiable scalar,
// computed in float32 or wider regardless of autocast.

/// How to estimate the standard deviation of a few values.
enum class Deviation {
  kUnbiased,  ///< divided by n - 1; undefined for one value
  kBiased,    ///< divided by n; 0 for one value
};

/// Penalizes features that vary too little within a class: returns the mean over classes and
/// features of max(0, target - deviation), with the standard deviation over the class's shots. The
/// loss pushes the images of a class apart until the target is reached. A feature that does not
/// vary at all has no gradient, so with one shot and kBiased the loss equals the target and has no
/// effect on training. Throws std::invalid_argument for one shot and kUnbiased.
at::Tensor support_variance_loss(const at::Tensor& features, double target, Deviation deviation);

/// Returns covariance_loss() of all supports together, (ways · shots, d). The Gram form needs
/// memory for (ways · shots)² values, whereas the direct form needs several times d². Throws like
/// covariance_loss().
at::Tensor support_covariance_loss(const at::Tensor& features, CovarianceForm form);

}  // namespace stages
