#pragma once

#include <array>
#include <memory>

#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include "stages/artifact/model.h"

/// Two 3×3 convolutions and a shortcut, as in ResNet-18 (He et al. 2015, arXiv:1512.03385), with
/// timm's names.
class ResidualBlock : public torch::nn::Module {
 public:
  ResidualBlock(std::int64_t in, std::int64_t out, std::int64_t stride) {
    const auto convolution = [&](std::int64_t from, std::int64_t size, std::int64_t step) {
      return torch::nn::Conv2d(
          torch::nn::Conv2dOptions(from, out, size).stride(step).padding(size / 2).bias(false));
    };
    conv1_ = register_module("conv1", convolution(in, 3, stride));
    bn1_ = register_module("bn1", torch::nn::BatchNorm2d(out));
    conv2_ = register_module("conv2", convolution(out, 3, 1));
    bn2_ = register_module("bn2", torch::nn::BatchNorm2d(out));
    if (in != out || stride != 1) {
      shortcut_ = register_module("downsample", torch::nn::Sequential(convolution(in, 1, stride),
                                                                      torch::nn::BatchNorm2d(out)));
    }
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = bn2_->forward(conv2_->forward(bn1_->forward(conv1_->forward(x)).relu_()));
    return (y + (shortcut_ ? shortcut_->forward(x) : x)).relu_();
  }

 private:
  torch::nn::Conv2d conv1_ = nullptr, conv2_ = nullptr;
  torch::nn::BatchNorm2d bn1_ = nullptr, bn2_ = nullptr;
  torch::nn::Sequential shortcut_ = nullptr;
};

class ResNet18 : public torch::nn::Module {
 public:
  explicit ResNet18(std::int64_t classes) {
    conv1_ = register_module(
        "conv1",
        torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 64, 7).stride(2).padding(3).bias(false)));
    bn1_ = register_module("bn1", torch::nn::BatchNorm2d(64));
    std::int64_t in = 64;
    for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
      const std::int64_t out = std::int64_t{64} << layer;
      layers_[layer] =
          register_module("layer" + std::to_string(layer + 1),
                          torch::nn::Sequential(ResidualBlock(in, out, layer == 0 ? 1 : 2),
                                                ResidualBlock(out, out, 1)));
      in = out;
    }
    fc_ = register_module("fc", torch::nn::Linear(in, classes));
  }
  at::Tensor forward(const at::Tensor& images) {
    at::Tensor x = torch::max_pool2d(bn1_->forward(conv1_->forward(images)).relu_(), 3, 2, 1);
    for (auto& layer : layers_) x = layer->forward(x);
    return fc_->forward(x.mean({2, 3}));
  }

 private:
  torch::nn::Conv2d conv1_ = nullptr;
  torch::nn::BatchNorm2d bn1_ = nullptr;
  std::array<torch::nn::Sequential, 4> layers_ = {nullptr, nullptr, nullptr, nullptr};
  torch::nn::Linear fc_ = nullptr;
};

/// ResNet-18 as a model for train.supervised.
class ResNetModel final : public stages::Model {
 public:
  std::shared_ptr<torch::nn::Module> build(const stages::DatasetDescription& data,
                                           std::uint64_t seed) const override {
    torch::manual_seed(seed);
    return std::make_shared<ResNet18>(static_cast<std::int64_t>(data.classes.size()));
  }
  std::shared_ptr<torch::nn::Module> outline(
      const stages::DatasetDescription& data) const override {
    auto network = build(data, 0);
    network->to(at::kMeta);
    return network;
  }
  stages::NamedTensors forward(torch::nn::Module& network,
                               const stages::NamedTensors& inputs) const override {
    return {{"logits", dynamic_cast<ResNet18&>(network).forward(inputs.at("image"))}};
  }
  bool mixes_samples() const override { return true; }
};
