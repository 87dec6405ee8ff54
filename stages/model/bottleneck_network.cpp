#include "stages/model/bottleneck_network.h"

#include <algorithm>
#include <string>

#include <torch/nn/modules/container/modulelist.h>
#include <torch/types.h>

#include "stages/model/gated_residual.h"

namespace stages {
namespace {

constexpr std::int64_t kExpansion = 4, kReferencePlanes = 64, kPixelsOfLastMap = 32;

std::shared_ptr<BatchNorm> collecting_norm(std::int64_t channels, const at::TensorOptions& options) {
  return std::make_shared<BatchNorm>(channels, BatchNormStatistics::kCollected, options);
}

/// The width of a gate: a multiple of 8 near `channels / ratio`.
std::int64_t squeezed_width(std::int64_t channels, std::int64_t ratio) {
  constexpr std::int64_t kMultiple = 8;
  const std::int64_t doubled = 2 * channels / ratio;  // half of the multiple more, then rounded down
  return std::max(kMultiple, (doubled + kMultiple) / (2 * kMultiple) * kMultiple);
}

BottleneckSizes sizes_of_stage(const BottleneckOptions& network, std::size_t stage) {
  const std::int64_t planes = network.planes << stage, out = kExpansion * planes;
  return {.width = std::max<std::int64_t>(1, planes * network.base_width / kReferencePlanes) * network.cardinality,
          .out = out,
          .groups = network.cardinality,
          .squeezed = network.squeeze_ratio > 0 ? squeezed_width(out, network.squeeze_ratio) : 0};
}

}  // namespace

Bottleneck::Bottleneck(const BottleneckSizes& sizes, const at::TensorOptions& options) {
  const auto add = [&](const std::string& number, std::shared_ptr<Convolution>& convolution,
                       std::shared_ptr<BatchNorm>& norm, const ConvolutionSizes& shape) {
    convolution = register_module("conv" + number, std::make_shared<Convolution>(shape, options));
    norm = register_module("bn" + number, collecting_norm(shape.out, options));
  };
  add("1", conv1_, bn1_, {.in = sizes.in, .out = sizes.width, .size = 1});
  add("2", conv2_, bn2_,
      {.in = sizes.width, .out = sizes.width, .stride = sizes.stride, .padding = 1, .groups = sizes.groups});
  add("3", conv3_, bn3_, {.in = sizes.width, .out = sizes.out, .size = 1});
  if (sizes.squeezed > 0) {
    const SqueezeExcitationStyle style{.squeeze = "fc1", .excite = "fc2"};
    se_ = register_module(
        "se", std::make_shared<SqueezeExcitation>(SqueezeExcitationSizes{sizes.out, sizes.squeezed}, style, options));
  }
  if (sizes.in == sizes.out && sizes.stride == 1) return;
  const auto list = register_module("downsample", std::make_shared<torch::nn::ModuleListImpl>());
  shortcut_ = std::make_shared<Convolution>(
      ConvolutionSizes{.in = sizes.in, .out = sizes.out, .size = 1, .stride = sizes.stride}, options);
  shortcut_norm_ = collecting_norm(sizes.out, options);
  list->push_back(shortcut_);
  list->push_back(shortcut_norm_);
}

at::Tensor Bottleneck::compute(const at::Tensor& input) const {
  const OwnPrecision own(*this);
  const at::Tensor x = own(input);
  at::Tensor y = bn1_->forward_relu(conv1_->forward(x));
  y = bn2_->forward_relu(conv2_->forward(y));
  y = bn3_->forward(conv3_->forward(y));
  const at::Tensor added = shortcut_ ? shortcut_norm_->forward(shortcut_->forward(x)) : x;
  if (se_) return gated_residual(y, se_->forward(y), added);
  return (y.scalar_type() == added.scalar_type() ? y.add_(added) : y + added).relu_();
}

BottleneckNetwork::BottleneckNetwork(const BottleneckOptions& network, const at::TensorOptions& options)
    : channels_(kExpansion * (network.planes << (network.layers.size() - 1))) {
  conv1_ = register_module(
      "conv1", std::make_shared<Convolution>(
                   ConvolutionSizes{.in = 3, .out = network.planes, .size = 7, .stride = 2, .padding = 3}, options));
  bn1_ = register_module("bn1", collecting_norm(network.planes, options));
  std::int64_t in = network.planes;
  for (std::size_t stage = 0; stage < network.layers.size(); ++stage) {
    BottleneckSizes sizes = sizes_of_stage(network, stage);
    const auto list =
        register_module("layer" + std::to_string(stage + 1), std::make_shared<torch::nn::ModuleListImpl>());
    for (std::int64_t block = 0; block < network.layers[stage]; ++block) {
      sizes.in = in;
      sizes.stride = stage > 0 && block == 0 ? 2 : 1;
      blocks_.push_back(std::make_shared<Bottleneck>(sizes, options));
      list->push_back(blocks_.back());
      in = sizes.out;
    }
  }
}

at::Tensor BottleneckNetwork::forward(const at::Tensor& images) const {
  const OwnPrecision own(*this);
  at::Tensor x = bn1_->forward_relu(conv1_->forward(own(images)));
  x = torch::max_pool2d(x, /*kernel_size=*/3, /*stride=*/2, /*padding=*/1);
  for (const auto& block : blocks_) x = block->forward(x);
  return x;
}

std::optional<MapShape> BottleneckNetwork::shape(std::int64_t height, std::int64_t width) const {
  const auto pixels = [](std::int64_t size) { return (size + kPixelsOfLastMap - 1) / kPixelsOfLastMap; };
  return MapShape{channels_, pixels(height), pixels(width)};
}

}  // namespace stages
