#include "stages/model/convolutional_networks.h"

#include <string>

#include <torch/nn/module.h>
#include <torch/nn/modules/container/moduledict.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/types.h>

#include "stages/numerics/sharded_build.h"

namespace stages {
namespace {

std::shared_ptr<BatchNorm> dense_norm(std::int64_t channels, const at::TensorOptions& options) {
  return std::make_shared<BatchNorm>(channels, BatchNormStatistics::kCollected, options);
}

}  // namespace

class DenseBlock::Layer : public RecomputableModule {
 public:
  Layer(std::int64_t in, std::int64_t growth, const at::TensorOptions& options)
      : norm1_(register_module("norm1", dense_norm(in, options))),
        conv1_(register_module(
            "conv1",
            std::make_shared<Convolution>(
                ConvolutionSizes{.in = in, .out = kWidening * growth, .size = 1}, options))),
        norm2_(register_module("norm2", dense_norm(kWidening * growth, options))),
        conv2_(register_module(
            "conv2",
            std::make_shared<Convolution>(
                ConvolutionSizes{.in = kWidening * growth, .out = growth, .size = 3, .padding = 1},
                options))) {}

 private:
  static constexpr std::int64_t kWidening = 4;

  at::Tensor compute(const at::Tensor& input) const override {
    const OwnPrecision own(*this);
    const at::Tensor narrow = conv1_->forward(norm1_->forward_relu(own(input)));
    return conv2_->forward(norm2_->forward_relu(narrow));
  }

  std::shared_ptr<BatchNorm> norm1_;
  std::shared_ptr<Convolution> conv1_;
  std::shared_ptr<BatchNorm> norm2_;
  std::shared_ptr<Convolution> conv2_;
};

DenseBlock::DenseBlock(std::int64_t in, std::int64_t layers, std::int64_t growth,
                       const at::TensorOptions& options) {
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    layers_.push_back(
        register_module("denselayer" + std::to_string(layer + 1),
                        std::make_shared<Layer>(in + layer * growth, growth, options)));
  }
}

at::Tensor DenseBlock::compute(const at::Tensor& input) const {
  const OwnPrecision own(*this);
  at::Tensor all = own(input);
  for (const auto& layer : layers_) all = torch::cat({all, layer->forward(all)}, 1);
  return all;
}

DenseTransition::DenseTransition(std::int64_t in, const at::TensorOptions& options)
    : norm_(register_module("norm", dense_norm(in, options))),
      conv_(register_module("conv",
                            std::make_shared<Convolution>(
                                ConvolutionSizes{.in = in, .out = in / 2, .size = 1}, options))) {}

at::Tensor DenseTransition::compute(const at::Tensor& input) const {
  const OwnPrecision own(*this);
  return torch::avg_pool2d(conv_->forward(norm_->forward_relu(own(input))), /*kernel_size=*/2,
                           /*stride=*/2);
}

DenseNetwork::DenseNetwork(const DenseOptions& network, const at::TensorOptions& options) {
  const auto features = register_module("features", std::make_shared<torch::nn::ModuleDictImpl>());
  const auto add = [&](const std::string& name, const auto& module) {
    features->update({{name, std::static_pointer_cast<torch::nn::Module>(module)}});
    return module;
  };
  conv0_ = add(
      "conv0",
      std::make_shared<Convolution>(
          ConvolutionSizes{.in = 3, .out = network.channels, .size = 7, .stride = 2, .padding = 3},
          options));
  norm0_ = add("norm0", dense_norm(network.channels, options));
  std::int64_t channels = network.channels;
  for (std::size_t block = 0; block < network.layers.size(); ++block) {
    const std::string number = std::to_string(block + 1);
    blocks_.push_back(
        add("denseblock" + number,
            make_block<DenseBlock>(channels, network.layers[block], network.growth, options)));
    channels += network.layers[block] * network.growth;
    if (block + 1 == network.layers.size()) break;
    transitions_.push_back(
        add("transition" + number, std::make_shared<DenseTransition>(channels, options)));
    channels /= 2;
  }
  norm5_ = add("norm5", dense_norm(channels, options));
  channels_ = channels;
}

at::Tensor DenseNetwork::forward(const at::Tensor& images) const {
  const OwnPrecision own(*this);
  at::Tensor x = norm0_->forward_relu(conv0_->forward(own(images)));
  x = torch::max_pool2d(x, /*kernel_size=*/3, /*stride=*/2, /*padding=*/1);
  for (std::size_t block = 0; block < blocks_.size(); ++block) {
    x = blocks_[block]->forward(x);
    if (block < transitions_.size()) x = transitions_[block]->forward(x);
  }
  return norm5_->forward_relu(x);
}

std::optional<MapShape> DenseNetwork::shape(std::int64_t height, std::int64_t width) const {
  const auto halved = [](std::int64_t size) { return (size + 1) / 2; };
  const auto last = [&](std::int64_t size) {
    return halved(halved(size)) / 8;
  };  // three transitions round down
  if (last(height) == 0 || last(width) == 0) return std::nullopt;
  return MapShape{channels_, last(height), last(width)};
}

namespace {

constexpr std::int64_t kPoolingBlocks = 4, kPixelsOfOneFeature = 16;

}  // namespace

ConvBlock::ConvBlock(std::int64_t in, std::int64_t out, bool pools, BatchNormStatistics statistics,
                     const at::TensorOptions& options)
    : conv_(register_module(
          "conv",
          std::make_shared<Convolution>(
              ConvolutionSizes{.in = in, .out = out, .size = 3, .padding = 1, .has_bias = true},
              options))),
      norm_(register_module("norm", std::make_shared<BatchNorm>(out, statistics, options))),
      pools_(pools) {}

at::Tensor ConvBlock::compute(const at::Tensor& input) const {
  const OwnPrecision own(*this);
  const at::Tensor x = norm_->forward(conv_->forward(own(input)));
  // ReLU and max-pooling commute, and pooling first leaves a quarter of the values.
  return (pools_ ? torch::max_pool2d(x, /*kernel_size=*/2) : x).relu_();
}

ConvNetwork::ConvNetwork(const ConvNetworkOptions& network, const at::TensorOptions& options)
    : channels_(network.channels) {
  const auto list = register_module("blocks", std::make_shared<torch::nn::ModuleListImpl>());
  for (std::int64_t block = 0; block < network.blocks; ++block) {
    blocks_.push_back(make_block<ConvBlock>(block == 0 ? 3 : channels_, channels_,
                                            block < kPoolingBlocks, network.statistics, options));
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
