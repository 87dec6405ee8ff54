#include "stages/model/conv_network.h"

#include <torch/nn/modules/container/modulelist.h>
#include <torch/types.h>

namespace stages {
namespace {

constexpr std::int64_t kPoolingBlocks = 4, kPixelsOfOneFeature = 16;

}  // namespace

ConvBlock::ConvBlock(std::int64_t in, std::int64_t out, bool pools, BatchNormStatistics statistics,
                     const at::TensorOptions& options)
    : conv_(register_module(
          "conv", std::make_shared<Convolution>(
                      ConvolutionSizes{.in = in, .out = out, .size = 3, .padding = 1, .has_bias = true}, options))),
      norm_(register_module("norm", std::make_shared<BatchNorm>(out, statistics, options))),
      pools_(pools) {}

at::Tensor ConvBlock::compute(const at::Tensor& input) const {
  const OwnPrecision own(*this);
  const at::Tensor x = norm_->forward(conv_->forward(own(input)));
  // The largest number above 0 is the same whichever comes first, and after pooling there is a quarter of them.
  return (pools_ ? torch::max_pool2d(x, /*kernel_size=*/2) : x).relu_();
}

ConvNetwork::ConvNetwork(const ConvNetworkOptions& network, const at::TensorOptions& options)
    : channels_(network.channels) {
  const auto list = register_module("blocks", std::make_shared<torch::nn::ModuleListImpl>());
  for (std::int64_t block = 0; block < network.blocks; ++block) {
    blocks_.push_back(std::make_shared<ConvBlock>(block == 0 ? 3 : channels_, channels_, block < kPoolingBlocks,
                                                  network.statistics, options));
    list->push_back(blocks_.back());
  }
}

at::Tensor ConvNetwork::forward(const at::Tensor& images) const {
  const OwnPrecision own(*this);
  at::Tensor x = own(images);
  for (const auto& block : blocks_) x = block->forward(x);
  return x;
}

std::optional<MapShape> ConvNetwork::shape(std::int64_t height, std::int64_t width) const {
  if (height < kPixelsOfOneFeature || width < kPixelsOfOneFeature) return std::nullopt;
  return MapShape{channels_, height / kPixelsOfOneFeature, width / kPixelsOfOneFeature};
}

}  // namespace stages
