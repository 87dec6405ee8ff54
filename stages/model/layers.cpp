#include "stages/model/layers.h"

#include <stdexcept>

#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "stages/model/linear_layer.h"
#include "stages/numerics/precision_map.h"

namespace stages {

Linear::Linear(std::int64_t in, std::int64_t out, bool with_bias,
               const at::TensorOptions& options) {
  weight = register_parameter("weight", torch::empty({out, in}, options));
  if (with_bias) bias = register_parameter("bias", torch::empty({out}, options));
}

at::Tensor Linear::forward(const at::Tensor& input) const {
  const OwnPrecision own(*this);
  const at::Tensor x = own(input);
  const at::Tensor used = operand(weight, x);
  const auto added = low_rank_for(x, used);
  if (added && is_rescaled()) return rescaled(linear_layer(x, used, {}, added));
  if (added) return linear_layer(x, used, operand(bias, x), added);
  return adapted(x, linear_layer(x, used, operand(bias, x)));
}

at::Tensor Linear::unbiased(const at::Tensor& x) const {
  return linear_layer(x, operand(weight, x), {});
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

LayerScale::LayerScale(std::int64_t width, const at::TensorOptions& options)
    : lambda1_(register_parameter("lambda1", torch::empty({width}, options))) {}

at::Tensor LayerScale::forward(const at::Tensor& input) const {
  const OwnPrecision own(*this);
  const at::Tensor x = own(input);
  return x * widened(lambda1_, x);
}

PatchEmbedding::PatchEmbedding(std::int64_t patch, std::int64_t width, bool with_bias,
                               const at::TensorOptions& options) {
  weight = register_parameter("weight", torch::empty({width, 3, patch, patch}, options));
  if (with_bias) bias = register_parameter("bias", torch::empty({width}, options));
}

at::Tensor PatchEmbedding::forward(const at::Tensor& pixels) const {
  const OwnPrecision own(*this);
  const at::Tensor x = own(pixels);
  return adapted(x, convolved_patches(x, operand(weight, x), operand(bias, x)))
      .flatten(2)
      .transpose(1, 2);
}

at::Tensor PatchEmbedding::unbiased(const at::Tensor& pixels) const {
  return convolved_patches(pixels, operand(weight, pixels), {});
}

PositionEmbedding::PositionEmbedding(std::int64_t positions, std::int64_t width,
                                     const at::TensorOptions& options)
    : weight(register_parameter("weight", torch::empty({positions, width}, options))) {}

namespace {

using torch::autograd::AutogradContext, torch::autograd::variable_list;

/// Returns one row for each patch of images (n, channels, height, width), channel by channel.
at::Tensor patches_of(const at::Tensor& x, std::int64_t patch) {
  return x.view({x.size(0), x.size(1), x.size(2) / patch, patch, x.size(3) / patch, patch})
      .permute({0, 2, 4, 1, 3, 5})
      .reshape({-1, x.size(1) * patch * patch});
}

/// Returns images with the shape of `like` from the rows of patches_of().
at::Tensor images_of(const at::Tensor& rows, const at::Tensor& like, std::int64_t patch) {
  return rows
      .view({like.size(0), like.size(2) / patch, like.size(3) / patch, like.size(1), patch, patch})
      .permute({0, 3, 1, 4, 2, 5})
      .reshape(like.sizes());
}

/// The patches of x times `weight` (out, values of a patch), one row per patch. The gradient of the
/// weight extracts the patches again, which costs less than keeping them.
class PatchProducts : public torch::autograd::Function<PatchProducts> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, std::int64_t patch) {
    context->save_for_backward({x, x.requires_grad() ? weight : at::Tensor()});
    context->saved_data["patch"] = patch;
    context->saved_data["has_bias"] = bias.has_value();
    return linear_layer(patches_of(x, patch), weight, bias.value_or(at::Tensor()));
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    if (torch::GradMode::is_enabled())
      throw std::logic_error("products of patches do not support double backward");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &dy = gradients[0];
    const std::int64_t patch = context->saved_data.at("patch").toInt();
    variable_list result(4);
    if (context->needs_input_grad(0)) result[0] = images_of(dy.mm(weight), x, patch);
    if (context->needs_input_grad(1)) result[1] = dy.t().mm(patches_of(x, patch));
    if (context->saved_data.at("has_bias").toBool() && context->needs_input_grad(2))
      result[2] = dy.sum(0);
    return result;
  }
};

bool is_product(const at::Tensor& x, const at::Tensor& weight) {
  const std::int64_t patch = weight.size(2);
  const bool is_whole = weight.size(3) == patch && x.size(2) % patch == 0 && x.size(3) % patch == 0;
  const bool is_wide = x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble;
  return is_whole && is_wide && x.scalar_type() == weight.scalar_type() && is_on_cpu(x) &&
         current_precision(x.device()) == Precision::kFp32;
}

}  // namespace

at::Tensor with_unit_length(const at::Tensor& x) {
  return x / x.norm(2, /*dim=*/-1, /*keepdim=*/true);
}

at::Tensor convolved_patches(const at::Tensor& x, const at::Tensor& weight,
                             const at::Tensor& bias) {
  const std::int64_t patch = weight.size(2);
  if (!is_product(x, weight)) return torch::conv2d(x, weight, bias, /*stride=*/patch);
  return PatchProducts::apply(x, weight.flatten(1),
                              bias.defined() ? std::optional(bias) : std::nullopt, patch)
      .view({x.size(0), x.size(2) / patch, x.size(3) / patch, weight.size(0)})
      .permute({0, 3, 1, 2});
}

}  // namespace stages
