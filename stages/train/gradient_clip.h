#pragma once

#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

namespace runner {
class ConfigReader;
}

namespace torch::nn {
class Module;
}

namespace stages {

/// Adaptive gradient clipping (Brock, De, Smith and Simonyan, "High-Performance Large-Scale Image
/// Recognition Without Normalization", 2021), as in timm's adaptive_clip_grad.
struct AdaptiveClip {
  double factor = 0;      ///< maximum norm of a unit's gradient, relative to the unit's weights
  double epsilon = 0;     ///< lower bound on the norm of a unit's weights
  bool skip_head = true;  ///< do not clip the network's last layer
  bool operator==(const AdaptiveClip&) const = default;
};

/// Reads the option adaptive_gradient_clip.
std::optional<AdaptiveClip> read_adaptive_clip(runner::ConfigReader& reader);

/// The limit applied to a step's gradients before the optimizer uses them. At most one kind is set.
struct GradientClip {
  std::optional<double> norm = {};   ///< maximum norm of all gradients together: clip_divisor()
  std::optional<double> value = {};  ///< maximum absolute value of each element
  std::optional<AdaptiveClip> adaptive = {};
  std::vector<at::Tensor> head = {};  ///< the parameters that skip_head excludes

  /// True if each gradient is limited on its own, in clip_each().
  bool is_local() const { return value || adaptive; }
};

/// Returns the parameters of the network's last layer: those directly in the module that owns the
/// network's last parameter.
std::vector<at::Tensor> last_layer(const torch::nn::Module& network);

/// Applies a limit for which is_local() is true to the gradients of `parameters`, in place.
/// Parameters without a gradient are left alone. Does not wait for a GPU.
///
/// value: torch's clip_grad_value_. adaptive: the norm of each unit's gradient is limited to factor
/// times the norm of the unit's weights, which counts as at least epsilon. A unit is an index of
/// the first dimension; a vector or a scalar is one unit.
void clip_each(const std::vector<at::Tensor>& parameters, const GradientClip& clip);

/// Returns the Euclidean norm of all gradients together, a scalar on their device. There must be at
/// least one gradient.
at::Tensor global_norm(at::TensorList gradients);

/// Returns the divisor that limits gradients with this norm to `limit`: max(1, (norm + 1e-6) /
/// limit), the inverse of the factor in torch's clip_grad_norm_. A scalar on the norm's device.
at::Tensor clip_divisor(const at::Tensor& norm, double limit);

}  // namespace stages
