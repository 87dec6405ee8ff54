#pragma once

#include <memory>
#include <utility>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "stages/artifact/model.h"
#include "stages/train/classification_loss.h"
#include "stages/train/training_kind.h"

namespace stages {

/// Data with episodes as its samples.
inline DatasetDescription episodes(std::int64_t ways = 3, std::int64_t shots = 2,
                                   std::int64_t queries = 4, std::int64_t size = 32) {
  return {.size = 10,
          .tensors = {{"image", {ways * shots + queries, 3, size, size}, at::kFloat},
                      {"support", {ways, shots}, at::kLong},
                      {"label", {queries}, at::kLong}}};
}

/// Random inputs of `count` such episodes, seeded with `seed`.
inline NamedTensors episode_inputs(const DatasetDescription& data, std::int64_t count,
                                   std::uint64_t seed = 3) {
  const auto shape = [&](std::size_t i) {
    std::vector<std::int64_t> sizes = data.tensors[i].shape;
    sizes.insert(sizes.begin(), count);
    return sizes;
  };
  at::Generator generator = at::detail::createCPUGenerator(seed);
  return {{"image", torch::randn(shape(0), generator)},
          {"support", torch::zeros(shape(1), torch::kLong)},
          {"label", torch::randint(data.tensors[1].shape[0], shape(2), generator, torch::kLong)}};
}

/// Cross-entropy of a model's logits for the queries; each episode is a unit.
class EpisodeStep final : public TrainingStep {
 public:
  explicit EpisodeStep(const Model& model) : model_(model) {}
  std::vector<LossTerm> terms() const override { return {{"cross_entropy", Coupling::kPerGroup}}; }
  bool mixes_samples() const override { return model_.mixes_samples(); }
  NamedTensors encode(torch::nn::Module& network, const Batch& part) const override {
    return model_.forward(network, part.tensors());
  }
  NamedTensors loss(const NamedTensors& encoded, const Batch& part) const override {
    const at::Tensor logits = encoded.at("logits").flatten(0, 1);
    return {{"cross_entropy", cross_entropy_sum(logits, part["label"].flatten(), 0) /
                                  static_cast<double>(part["label"].size(1))}};
  }

 private:
  const Model& model_;
};

}  // namespace stages
