#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <torch/nn/module.h>

#include "stages/train/classification_loss.h"
#include "stages/train/training_kind.h"

namespace stages {

// A tiny network with a training step and a fast training run, for checking the mechanisms that
// memory policies rely on.

/// Returns numbers between -1 and 1, computed without a random number generator.
at::Tensor sines(at::IntArrayRef shape, double pace);

/// Two layers that map (n, 4) to (n, 3). The first one has dropout and can be recomputed.
class SmallNetwork : public torch::nn::Module {
 public:
  SmallNetwork();
  at::Tensor forward(const at::Tensor& x) const;

 private:
  class Block;
  std::shared_ptr<Block> block_;
  at::Tensor last_;
};

/// A step that computes the network's cross-entropy, a loss that compares every sample with every
/// other, or the covariance of the logits.
class SmallStep final : public TrainingStep {
 public:
  explicit SmallStep(bool is_coupled, std::optional<CovarianceForm> covariance = {})
      : is_coupled_(is_coupled), covariance_(covariance) {}
  std::vector<LossTerm> terms() const override {
    return {{"loss", is_coupled_ ? Coupling::kWholeBatch : Coupling::kPerSample}};
  }
  bool mixes_samples() const override { return false; }
  std::optional<BadUnit> find_bad_unit(const Batch&) const override {
    if (before_step) before_step();
    return {};
  }
  NamedTensors encode(torch::nn::Module& network, const Batch& part) const override;
  NamedTensors loss(const NamedTensors& encoded, const Batch& part) const override;

  std::function<void()> before_step;

 private:
  const bool is_coupled_;
  const std::optional<CovarianceForm> covariance_;  // used as the loss if it is set
};

/// A training run of two steps, in a temporary folder that it removes. Requires a
/// CountingAllocator.
class SmallTraining {
 public:
  SmallTraining();
  ~SmallTraining();

  /// Runs the two steps. The `refused`-th allocation (1-based) of the second step fails; 0: none
  /// fails. `on_step` is called once a step has been computed, before it changes a weight.
  void run(std::int64_t refused, std::int64_t replays,
           std::function<void(std::int64_t)> on_step = {});
  /// Returns all weights in one tensor.
  at::Tensor weights() const;

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace stages
