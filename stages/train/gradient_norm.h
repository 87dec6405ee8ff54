#pragma once

#include <ATen/core/Tensor.h>

namespace stages {

/// The Euclidean norm of all gradients taken together, a scalar on their device. There must be at least one.
at::Tensor global_norm(at::TensorList gradients);

/// What to divide gradients of norm `norm` by so that it is at most `limit`: max(1, (norm + 1e-6) / limit), the inverse
/// of what torch's clip_grad_norm_ multiplies them by. A scalar on the norm's device.
at::Tensor clip_divisor(const at::Tensor& norm, double limit);

}  // namespace stages
