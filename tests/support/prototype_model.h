#pragma once

#include <memory>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "stages/artifact/model.h"
#include "tests/support/tiny_dataset.h"

/// A layer on the points of TinyDataset that classifies queries by the nearest mean of the supports
/// (Snell and others, 2017): the smallest model that learns from episodes. Each episode is
/// processed by itself.
class PrototypeModel final : public stages::Model {
 public:
  std::shared_ptr<torch::nn::Module> build(const stages::DatasetDescription&,
                                           std::uint64_t seed) const override {
    torch::manual_seed(seed);
    return std::make_shared<TinyLinear>(2, kWidth, at::kCPU);
  }
  std::shared_ptr<torch::nn::Module> outline(const stages::DatasetDescription&) const override {
    return std::make_shared<TinyLinear>(2, kWidth, at::kMeta);
  }
  stages::NamedTensors forward(torch::nn::Module& network,
                               const stages::NamedTensors& inputs) const override {
    ++forwards;
    const at::Tensor& images = inputs.at("image");  // (episodes, samples, 2)
    const std::int64_t ways = inputs.at("support").size(1), shots = inputs.at("support").size(2);
    const at::Tensor features = dynamic_cast<TinyLinear&>(network).forward(images);
    const at::Tensor supports = features.slice(1, 0, ways * shots).unflatten(1, {ways, shots});
    const at::Tensor queries = features.slice(1, ways * shots);
    const at::Tensor apart = queries.unsqueeze(2) - supports.mean(2).unsqueeze(1);
    return {{"logits", -apart.square().sum(3)}, {"support_features", supports}};
  }
  bool mixes_samples() const override { return true; }

  static constexpr std::int64_t kWidth = 40;
  mutable int forwards = 0;
};
