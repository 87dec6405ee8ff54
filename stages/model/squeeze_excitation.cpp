#include "stages/model/squeeze_excitation.h"

#include <torch/torch.h>

namespace stages {
namespace {

std::shared_ptr<Convolution> pointwise(std::int64_t in, std::int64_t out, const at::TensorOptions& options) {
  return std::make_shared<Convolution>(ConvolutionSizes{.in = in, .out = out, .size = 1, .has_bias = true}, options);
}

}  // namespace

SqueezeExcitation::SqueezeExcitation(const SqueezeExcitationSizes& sizes, const SqueezeExcitationStyle& style,
                                     const at::TensorOptions& options)
    : is_silu_(style.is_silu),
      squeeze_(register_module(style.squeeze, pointwise(sizes.channels, sizes.squeezed, options))),
      excite_(register_module(style.excite, pointwise(sizes.squeezed, sizes.channels, options))) {}

at::Tensor SqueezeExcitation::forward(const at::Tensor& input) const {
  const OwnPrecision own(*this);
  const at::Tensor maps = own(input);
  const at::Tensor squeezed = squeeze_->forward(maps.mean({2, 3}, /*keepdim=*/true));
  return maps * excite_->forward(is_silu_ ? torch::silu(squeezed) : squeezed.relu()).sigmoid();
}

}  // namespace stages
