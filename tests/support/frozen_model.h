#pragma once

#include <cmath>
#include <memory>

#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include "stages/artifact/model.h"

/// A frozen layer and a head, for TinyDataset's points.
struct FrozenNetwork : torch::nn::Module {
  FrozenNetwork(std::int64_t classes, std::uint64_t seed) {
    torch::manual_seed(7);  // always the same frozen part
    body = register_module("body", torch::nn::Linear(2, 8));
    torch::manual_seed(seed);
    head = register_module("head", torch::nn::Linear(8, classes));
    for (at::Tensor& parameter : body->parameters()) parameter.requires_grad_(false);
  }
  torch::nn::Linear body = nullptr, head = nullptr;
};

/// Counts the rows that it computes.
class FrozenModel final : public stages::Model {
 public:
  std::shared_ptr<torch::nn::Module> build(const stages::DatasetDescription& data,
                                           std::uint64_t seed) const override {
    ++built;
    return std::make_shared<FrozenNetwork>(static_cast<std::int64_t>(data.classes.size()), seed);
  }
  std::shared_ptr<torch::nn::Module> outline(
      const stages::DatasetDescription& data) const override {
    return build(data, 0);
  }
  stages::NamedTensors forward(torch::nn::Module& network,
                               const stages::NamedTensors& inputs) const override {
    auto& frozen = dynamic_cast<FrozenNetwork&>(network);
    const at::Tensor features = inputs.contains("features")
                                    ? inputs.at("features")
                                    : frozen_features(network, inputs).at("features");
    return {{"logits", frozen.head->forward(features)}, {"features", features}};
  }
  bool mixes_samples() const override { return false; }
  bool has_frozen_features() const override { return is_frozen; }
  stages::NamedTensors frozen_features(torch::nn::Module& network,
                                       const stages::NamedTensors& inputs) const override {
    computed += inputs.at("image").size(0);
    was_training |= network.is_training();
    at::Tensor features =
        dynamic_cast<FrozenNetwork&>(network).body->forward(inputs.at("image")).tanh();
    if (is_broken) features = features / 0;
    return {{"features", features}};
  }

  bool is_frozen = true, is_broken = false;
  mutable int built = 0;
  mutable std::int64_t computed = 0;  // rows
  mutable bool was_training = false;
};
