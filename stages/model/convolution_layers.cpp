#include "stages/model/convolution_layers.h"

#include <torch/types.h>

#include "stages/model/grouped_convolution.h"
#include "stages/model/normalize_batch.h"
#include "stages/model/linear_layer.h"

namespace stages {
namespace {

/// A row of channels for each pixel, where they lie one after another.
at::Tensor pixels_of(const at::Tensor& x) { return x.permute({0, 2, 3, 1}); }

/// A kernel of one pixel whose steps are of one pixel multiplies a matrix: a product needs no copies in blocks, as
/// oneDNN's convolutions do.
bool is_product(const at::Tensor& x, const at::Tensor& weight, const ConvolutionSizes& shape) {
  return shape.size == 1 && shape.stride == 1 && shape.padding == 0 && shape.groups == 1 &&
         x.is_contiguous(at::MemoryFormat::ChannelsLast) && has_torch_product(pixels_of(x), weight.flatten(1));
}

}  // namespace

Convolution::Convolution(const ConvolutionSizes& shape, const at::TensorOptions& options)
    : weight(register_parameter("weight",
                                torch::empty({shape.out, shape.in / shape.groups, shape.size, shape.size}, options))),
      shape_(shape) {
  if (shape.has_bias) bias = register_parameter("bias", torch::empty({shape.out}, options));
}

at::Tensor Convolution::forward(const at::Tensor& input) const {
  const OwnPrecision own(*this);
  const at::Tensor x = own(input);
  if (is_product(x, weight, shape_)) return linear_layer(pixels_of(x), weight.flatten(1), bias).permute({0, 3, 1, 2});
  if (shape_.padding == 1 && !shape_.has_bias && can_convolve_groups(x, weight, shape_.stride)) {
    return grouped_convolution(x, weight, shape_.stride);
  }
  return torch::conv2d(x, weight, bias, shape_.stride, shape_.padding, /*dilation=*/1, shape_.groups);
}

BatchNorm::BatchNorm(std::int64_t channels, BatchNormStatistics statistics, const at::TensorOptions& options)
    : weight(register_parameter("weight", torch::empty({channels}, options))),
      bias(register_parameter("bias", torch::empty({channels}, options))),
      running_mean_(register_buffer("running_mean", torch::zeros({channels}, options))),
      running_var_(register_buffer("running_var", torch::ones({channels}, options))),
      num_batches_tracked_(register_buffer("num_batches_tracked", torch::zeros({}, options.dtype(torch::kLong)))),
      statistics_(statistics) {}

at::Tensor BatchNorm::forward(const at::Tensor& x) const { return compute(x, /*has_relu=*/false); }

at::Tensor BatchNorm::forward_relu(const at::Tensor& x) const { return compute(x, /*has_relu=*/true); }

at::Tensor BatchNorm::compute(const at::Tensor& input, bool has_relu) const {
  const OwnPrecision own(*this);
  const at::Tensor x = own(input);
  const bool has_spread = input.numel() > weight.numel();
  const bool collects = statistics_ == BatchNormStatistics::kCollected && is_training() && has_spread;
  const bool is_by_batch = collects || statistics_ == BatchNormStatistics::kOfBatch;
  const bool sees_collected = collects || !is_by_batch;
  if (collects) num_batches_tracked_.add_(1);
  const BatchNormTensors tensors{weight, bias, sees_collected ? running_mean_ : at::Tensor(),
                                 sees_collected ? running_var_ : at::Tensor()};
  if (is_by_batch && can_normalize_batch(x, weight)) return normalize_batch(x, tensors, has_relu);
  const at::Tensor y = torch::batch_norm(x, weight, bias, tensors.running_mean, tensors.running_var, is_by_batch,
                                         kBatchNormMomentum, kBatchNormEpsilon, at::globalContext().userEnabledCuDNN());
  return has_relu ? y.relu_() : y;
}

}  // namespace stages
