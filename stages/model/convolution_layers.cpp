#include "stages/model/convolution_layers.h"

#include <torch/types.h>

namespace stages {

Convolution::Convolution(const ConvolutionSizes& shape, const at::TensorOptions& options)
    : weight(register_parameter("weight",
                                torch::empty({shape.out, shape.in / shape.groups, shape.size, shape.size}, options))),
      shape_(shape) {
  if (shape.has_bias) bias = register_parameter("bias", torch::empty({shape.out}, options));
}

at::Tensor Convolution::forward(const at::Tensor& input) const {
  const OwnPrecision own(*this);
  return torch::conv2d(own(input), weight, bias, shape_.stride, shape_.padding, /*dilation=*/1, shape_.groups);
}

BatchNorm::BatchNorm(std::int64_t channels, BatchNormStatistics statistics, const at::TensorOptions& options)
    : weight(register_parameter("weight", torch::empty({channels}, options))),
      bias(register_parameter("bias", torch::empty({channels}, options))),
      running_mean_(register_buffer("running_mean", torch::zeros({channels}, options))),
      running_var_(register_buffer("running_var", torch::ones({channels}, options))),
      num_batches_tracked_(register_buffer("num_batches_tracked", torch::zeros({}, options.dtype(torch::kLong)))),
      statistics_(statistics) {}

at::Tensor BatchNorm::forward(const at::Tensor& input) const {
  constexpr double kMomentum = 0.1, kEpsilon = 1e-5;
  const OwnPrecision own(*this);
  const bool has_spread = input.numel() > weight.numel();
  const bool collects = statistics_ == BatchNormStatistics::kCollected && is_training() && has_spread;
  const bool is_by_batch = collects || statistics_ == BatchNormStatistics::kOfBatch;
  const bool sees_collected = collects || !is_by_batch;
  if (collects) num_batches_tracked_.add_(1);
  return torch::batch_norm(own(input), weight, bias, sees_collected ? running_mean_ : at::Tensor(),
                           sees_collected ? running_var_ : at::Tensor(), is_by_batch, kMomentum, kEpsilon,
                           at::globalContext().userEnabledCuDNN());
}

}  // namespace stages
