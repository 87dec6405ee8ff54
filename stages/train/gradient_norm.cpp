#include "stages/train/gradient_norm.h"

#include <torch/torch.h>

namespace stages {

at::Tensor global_norm(at::TensorList gradients) {
  return torch::linalg_vector_norm(torch::stack(at::_foreach_norm(gradients, 2)), 2);
}

at::Tensor clip_divisor(const at::Tensor& norm, double limit) { return ((norm + 1e-6) / limit).clamp_min(1.0); }

}  // namespace stages
