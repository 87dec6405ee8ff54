#pragma once

#include <string>
#include <vector>

#include "stages/train/classification_loss.h"
#include "stages/train/training_kind.h"
#include "tests/support/tiny_dataset.h"

/// Cross-entropy of TinyModel, or a loss over each group or the whole batch.
class TinyStep : public stages::TrainingStep {
 public:
  std::vector<stages::LossTerm> terms() const override { return {{"cross_entropy", coupling}}; }
  bool mixes_samples() const override { return false; }
  std::string why_not_replayed() const override { return why_computed; }
  stages::NamedTensors encode(torch::nn::Module& network,
                              const stages::Batch& part) const override {
    return model.forward(network, part.tensors());
  }
  stages::NamedTensors loss(const stages::NamedTensors& encoded,
                            const stages::Batch& part) const override {
    return {{"cross_entropy", stages::cross_entropy_sum(encoded.at("logits"), part["label"], 0)}};
  }
  stages::NamedTensors score(const stages::NamedTensors& encoded,
                             const stages::Batch& part) const override {
    return {{"accuracy", stages::correct_count(encoded.at("logits"), part["label"])}};
  }

  TinyModel model;
  std::string why_computed;  // in each step, not replayed from a CUDA graph
  stages::Coupling coupling = stages::Coupling::kPerSample;
};
