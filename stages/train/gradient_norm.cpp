#include "stages/train/gradient_norm.h"

#include <torch/torch.h>

namespace stages {

at::Tensor global_norm(at::TensorList gradients) {
  return torch::linalg_vector_norm(torch::stack(at::_foreach_norm(gradients, 2)), 2);
}

at::Tensor clip_factor(const at::Tensor& norm, double limit) { return (limit / (norm + 1e-6)).clamp_max(1.0); }

}  // namespace stages
