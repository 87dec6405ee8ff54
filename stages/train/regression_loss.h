#pragma once

#include <string>
#include <variant>

#include <ATen/core/Tensor.h>

namespace runner {
class ConfigReader;
}

namespace stages {

/// The squared error, like torch's MSELoss.
struct SquaredError {};
/// The absolute error, like torch's L1Loss.
struct AbsoluteError {};
/// Like torch's HuberLoss (Huber, "Robust Estimation of a Location Parameter", 1964).
struct HuberLoss {
  double delta = 1;  ///< the error at which the loss changes from quadratic to linear
};
/// Like torch's SmoothL1Loss (Girshick, "Fast R-CNN", 2015).
struct SmoothL1Loss {
  double beta = 1;  ///< the error at which the loss changes from quadratic to linear
};

using RegressionLoss = std::variant<SquaredError, AbsoluteError, HuberLoss, SmoothL1Loss>;

/// Reads the option `loss` of train.regression.
RegressionLoss read_regression_loss(runner::ConfigReader& reader);

/// Returns the kind of loss: "mse", "l1", "huber" or "smooth_l1".
std::string name_of(const RegressionLoss& loss);

/// Returns a string for TrainingStep::structure().
std::string structure_of(const RegressionLoss& loss);

/// Returns the loss of `outputs` (n, targets) for `targets` (n, targets), in the same units: the
/// sum over samples of the mean over targets, a scalar with a graph. Half-precision outputs are
/// converted to float32.
at::Tensor regression_loss_sum(const at::Tensor& outputs, const at::Tensor& targets,
                               const RegressionLoss& loss);

}  // namespace stages
