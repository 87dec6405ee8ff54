#pragma once

#include <memory>

#include <torch/nn/module.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/functional.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/modules/pooling.h>
#include <torch/types.h>

// Small networks of torch's own layers, with shapes that determine the memory layout. Each takes
// (n, 3, h, w).

/// Four 3×3 convolutions with normalization, and pooling after each (few-shot learning's Conv4).
/// Parameters: four per block.
inline std::shared_ptr<torch::nn::SequentialImpl> conv4(std::int64_t width = 8,
                                                        std::int64_t classes = 3) {
  torch::manual_seed(1);
  torch::nn::Sequential network;
  for (int block = 0; block < 4; ++block) {
    network->push_back(
        torch::nn::Conv2d(torch::nn::Conv2dOptions(block == 0 ? 3 : width, width, 3).padding(1)));
    network->push_back(torch::nn::BatchNorm2d(width));
    network->push_back(torch::nn::ReLU());
    network->push_back(torch::nn::MaxPool2d(2));
  }
  network->push_back(torch::nn::AdaptiveAvgPool2d(1));
  network->push_back(torch::nn::Flatten());
  network->push_back(torch::nn::Linear(width, classes));
  return network.ptr();
}

/// 1×1, 3×3 in groups, 1×1, with a gate of two linear layers per channel, as in SE-ResNeXt.
class GroupedBottleneck : public torch::nn::Module {
 public:
  GroupedBottleneck(std::int64_t width, std::int64_t inner, std::int64_t groups) {
    using torch::nn::Conv2dOptions;
    body_ = register_module(
        "body",
        torch::nn::Sequential(
            torch::nn::Conv2d(Conv2dOptions(width, inner, 1).bias(false)),
            torch::nn::BatchNorm2d(inner), torch::nn::ReLU(),
            torch::nn::Conv2d(Conv2dOptions(inner, inner, 3).padding(1).groups(groups).bias(false)),
            torch::nn::BatchNorm2d(inner), torch::nn::ReLU(),
            torch::nn::Conv2d(Conv2dOptions(inner, width, 1).bias(false)),
            torch::nn::BatchNorm2d(width)));
    gate_ = register_module(
        "gate",
        torch::nn::Sequential(torch::nn::Linear(width, width / 16 + 1), torch::nn::ReLU(),
                              torch::nn::Linear(width / 16 + 1, width), torch::nn::Sigmoid()));
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = body_->forward(x);
    const at::Tensor gate = gate_->forward(y.mean({2, 3}));
    return (x + y * gate.unsqueeze(2).unsqueeze(3)).relu();
  }

 private:
  torch::nn::Sequential body_ = nullptr, gate_ = nullptr;
};

inline std::shared_ptr<torch::nn::SequentialImpl> grouped_bottlenecks(std::int64_t width = 16,
                                                                      std::int64_t classes = 3) {
  torch::manual_seed(1);
  return torch::nn::Sequential(
             torch::nn::Conv2d(torch::nn::Conv2dOptions(3, width, 7).stride(2).padding(3)),
             GroupedBottleneck(width, width, width / 4), GroupedBottleneck(width, width, width / 4),
             torch::nn::AdaptiveAvgPool2d(1), torch::nn::Flatten(),
             torch::nn::Linear(width, classes))
      .ptr();
}

/// Patches of 4×4 pixels, and the layers of a transformer block.
inline std::shared_ptr<torch::nn::SequentialImpl> patch_transformer(std::int64_t width = 8,
                                                                    std::int64_t classes = 3) {
  torch::manual_seed(1);
  return torch::nn::Sequential(
             torch::nn::Conv2d(torch::nn::Conv2dOptions(3, width, 4).stride(4)),
             torch::nn::Flatten(torch::nn::FlattenOptions().start_dim(2)),
             torch::nn::Functional([](const at::Tensor& x) { return x.transpose(1, 2); }),
             torch::nn::Linear(width, 4 * width), torch::nn::GELU(),
             torch::nn::Linear(4 * width, width),
             torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})),
             torch::nn::Functional([](const at::Tensor& x) { return x.mean(1); }),
             torch::nn::Linear(width, classes))
      .ptr();
}

inline at::Tensor forward(torch::nn::SequentialImpl& network, const at::Tensor& images) {
  return network.forward(images);
}
