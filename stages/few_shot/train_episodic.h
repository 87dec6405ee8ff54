#pragma once

#include <ATen/core/Tensor.h>

#include "stages/train/classification_loss.h"

namespace stages {

// What keeps the features of an episode's support images apart, beside its cross-entropy: VICReg's
// variance and covariance (Bardes, Ponce and LeCun 2022, arXiv:2105.04906) of features (ways,
// shots, d), before prototypes are made of them. Each is a scalar with graph; both are computed in
// float32 at least, whatever the precision around them.

/// How the deviation of a few numbers is estimated.
enum class Deviation {
  kUnbiased,  ///< divided by one less than their number; of one number there is none
  kBiased,    ///< divided by their number; of one number it is 0
};

/// By how much features vary too little within a class: the mean over classes and features of
/// max(0, target - deviation), the deviation over the class's shots. It pushes the images of a
/// class apart, up to the target. Where a feature does not vary at all it has no gradient, so of
/// one shot, biased, it is the target and trains nothing. Throws std::invalid_argument for one
/// shot, unbiased.
at::Tensor support_variance_loss(const at::Tensor& features, double target, Deviation deviation);

/// covariance_loss() of all supports together, (ways · shots, d): the Gram form needs (ways ·
/// shots)² numbers where the direct one needs d² several times over. Throws as that does.
at::Tensor support_covariance_loss(const at::Tensor& features, CovarianceForm form);

}  // namespace stages
