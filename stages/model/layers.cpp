#include "stages/model/layers.h"

#include <torch/types.h>

#include "stages/model/linear_layer.h"
#include "stages/model/patches.h"

namespace stages {

Linear::Linear(std::int64_t in, std::int64_t out, bool with_bias, const at::TensorOptions& options) {
  weight = register_parameter("weight", torch::empty({out, in}, options));
  if (with_bias) bias = register_parameter("bias", torch::empty({out}, options));
}

at::Tensor Linear::forward(const at::Tensor& input) const {
  const OwnPrecision own(*this);
  const at::Tensor x = own(input);
  const at::Tensor used = operand(weight, x);
  if (const auto added = low_rank_for(x, used)) return linear_layer(x, used, operand(bias, x), added);
  return adapted(x, linear_layer(x, used, operand(bias, x)));
}

LayerNorm::LayerNorm(std::int64_t width, double epsilon, const at::TensorOptions& options)
    : weight(register_parameter("weight", torch::empty({width}, options))),
      bias(register_parameter("bias", torch::empty({width}, options))),
      epsilon_(epsilon) {}

at::Tensor LayerNorm::forward(const at::Tensor& input) const {
  const OwnPrecision own(*this);
  const at::Tensor x = own(input);
  return torch::layer_norm(x, weight.sizes(), widened(weight, x), widened(bias, x), epsilon_);
}

PatchEmbedding::PatchEmbedding(std::int64_t patch, std::int64_t width, bool with_bias,
                               const at::TensorOptions& options) {
  weight = register_parameter("weight", torch::empty({width, 3, patch, patch}, options));
  if (with_bias) bias = register_parameter("bias", torch::empty({width}, options));
}

at::Tensor PatchEmbedding::forward(const at::Tensor& pixels) const {
  const OwnPrecision own(*this);
  const at::Tensor x = own(pixels);
  return adapted(x, convolved_patches(x, operand(weight, x), operand(bias, x))).flatten(2).transpose(1, 2);
}

PositionEmbedding::PositionEmbedding(std::int64_t positions, std::int64_t width, const at::TensorOptions& options)
    : weight(register_parameter("weight", torch::empty({positions, width}, options))) {}

}  // namespace stages
