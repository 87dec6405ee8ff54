#pragma once

#include <ATen/core/Tensor.h>

namespace stages {

/// The Euclidean norm of all gradients taken together, a scalar on their device. There must be at least one.
at::Tensor global_norm(at::TensorList gradients);

/// What to multiply gradients of norm `norm` by so that it is at most `limit`: min(1, limit / (norm + 1e-6)), as
/// torch's clip_grad_norm_ has it. A scalar on the norm's device.
at::Tensor clip_factor(const at::Tensor& norm, double limit);

}  // namespace stages
