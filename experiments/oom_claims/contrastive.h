#pragma once

#include <memory>
#include <vector>

#include <torch/nn/module.h>

#include "stages/train/training_kind.h"

namespace oom_claims {

/// Returns two small towers in float64, one for images and one for tensors in place of captions.
std::shared_ptr<torch::nn::Module> two_towers();
/// Returns a batch for these towers, with "image" and "caption".
stages::Batch random_pairs(std::int64_t pairs);

/// CLIP's loss: each image is compared with all captions in the batch, and each caption with all
/// images.
class ContrastiveStep final : public stages::TrainingStep {
 public:
  std::vector<stages::LossTerm> terms() const override {
    return {{"contrastive", stages::Coupling::kWholeBatch}};
  }
  bool mixes_samples() const override { return false; }
  stages::NamedTensors encode(torch::nn::Module& network, const stages::Batch& part) const override;
  stages::NamedTensors loss(const stages::NamedTensors& encoded,
                            const stages::Batch& part) const override;
};

}  // namespace oom_claims
