#include "stages/model/squeeze_excitation.h"

#include <vector>

#include <torch/autograd.h>
#include <torch/types.h>

namespace stages {
namespace {

std::shared_ptr<Convolution> pointwise(std::int64_t in, std::int64_t out, const at::TensorOptions& options) {
  return std::make_shared<Convolution>(ConvolutionSizes{.in = in, .out = out, .size = 1, .has_bias = true}, options);
}

/// The mean of each channel, (n, channels, 1, 1). Its gradient is one number for all pixels, and is kept as one:
/// torch's writes it out for each of them.
class ChannelMeans : public torch::autograd::Function<ChannelMeans> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& maps) {
    context->saved_data["shape"] = maps.sizes().vec();
    return maps.mean({2, 3}, /*keepdim=*/true);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const std::vector<std::int64_t> shape = context->saved_data.at("shape").toIntVector();
    return {(gradients[0] / (shape[2] * shape[3])).expand(shape)};
  }
};

}  // namespace

SqueezeExcitation::SqueezeExcitation(const SqueezeExcitationSizes& sizes, const SqueezeExcitationStyle& style,
                                     const at::TensorOptions& options)
    : is_silu_(style.is_silu),
      squeeze_(register_module(style.squeeze, pointwise(sizes.channels, sizes.squeezed, options))),
      excite_(register_module(style.excite, pointwise(sizes.squeezed, sizes.channels, options))) {}

at::Tensor SqueezeExcitation::forward(const at::Tensor& input) const {
  const OwnPrecision own(*this);
  const at::Tensor squeezed = squeeze_->forward(ChannelMeans::apply(own(input)));
  return excite_->forward(is_silu_ ? torch::silu(squeezed) : squeezed.relu()).sigmoid();
}

}  // namespace stages
