#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include "stages/machine/counting_allocator.h"
#include "stages/numerics/recomputable_module.h"
#include "stages/random/dropout.h"
#include "stages/train/trainer.h"
#include "stages/weights/weights.h"
#include "tests/support/on_test_device.h"
#include "tests/support/recording_context.h"
#include "tests/support/tiny_step.h"
#include "tests/support/tiny_tower.h"

namespace stages {

/// Two layers with dropout, and with BatchNorm if samples may be mixed, in a single block.
class SpoilingNet : public RecomputableModule {
 public:
  explicit SpoilingNet(bool batch_norm) {
    torch::manual_seed(3);
    first_ = register_module("first", torch::nn::Linear(2, 8));
    if (batch_norm) norm_ = register_module("norm", torch::nn::BatchNorm1d(8));
    dropout_ = register_module("dropout", std::make_shared<Dropout>(0.3));
    last_ = register_module("last", torch::nn::Linear(8, 3));
  }
  bool is_block() const override { return true; }

 private:
  at::Tensor compute(const at::Tensor& x) const override {
    const at::Tensor hidden = first_->forward(x);
    return last_->forward(
        dropout_->forward((norm_.is_empty() ? hidden : norm_->forward(hidden)).tanh()));
  }

  mutable torch::nn::Linear first_ = nullptr, last_ = nullptr;
  mutable torch::nn::BatchNorm1d norm_ = nullptr;
  std::shared_ptr<Dropout> dropout_;
};

/// Everything that a step may change, at one moment.
struct SpoiltState {
  NamedTensors weights;
  at::Tensor generator;

  static SpoiltState of(const torch::nn::Module& network) {
    SpoiltState state{
        .weights = {},
        .generator = at::globalContext().defaultGenerator(here().device()).get_state()};
    for (const auto& [name, tensor] : stages::weights(network))
      state.weights.set(name, tensor.detach().clone());
    return state;
  }
  bool equals(const SpoiltState& other) const {
    for (const auto& [name, tensor] : weights) {
      if (!tensor.equal(other.weights.at(name))) return false;
    }
    return generator.equal(other.generator);
  }
};

struct SpoiltCase {
  Precision precision = Precision::kFp32;
  bool batch_norm = true;
  std::optional<std::int64_t> micro_batch = {};
  bool two_pass = false;
  bool recompute = false;
  bool is_double = false;
  bool is_tower = false;  ///< a larger network, in float64
  OptimizerOptions optimizer = SgdOptions{.learning_rate = 0.1, .momentum = 0.9};
};

/// A training run of two steps, either of which may fail. Its encoding uses noise from torch's
/// generator, unless noise must not be repeated.
class SpoiltTraining final : public TinyStep {
 public:
  explicit SpoiltTraining(const SpoiltCase& one) : one_(one), network(make_network(one)) {
    if (one.is_double) network->to(torch::kDouble);
    data->options.workers = 0;
    options.epochs = 1;
    options.batch_size = 8;
    options.optimizer = one.optimizer;
    if (!one.is_double && !one.is_tower)
      options.gradient_clip_norm = 0.1;  // the factor for gradients is a float32
    options.monitor = "loss";
    policy.precision = one.precision;
    policy.micro_batch = one.micro_batch;
    policy.two_pass = one.two_pass;
    policy.activation_checkpointing.blocks = one.recompute;
    context.on_progress = [this](const runner::Progress&) {
      if (counter)
        counter->refuse(0);  // then the commit, which allocates nothing, and the next batch
    };
    torch::manual_seed(9);
  }

  bool mixes_samples() const override { return one_.batch_norm; }
  std::optional<BadUnit> find_bad_unit(const Batch&) const override {
    ++step_;
    parts_ = 0;
    if (step_ != spoilt_step && !spoils_every_step) return {};
    before = SpoiltState::of(*network);
    if (counter) counter->refuse(refused);
    return {};
  }
  NamedTensors encode(torch::nn::Module& net, const Batch& part) const override {
    ++parts_;
    if (one_.is_tower) {
      const at::Tensor image =
          part["image"].repeat({1, 96}).view({part.units(), 3, 8, 8}).to(torch::kDouble);
      return dynamic_cast<ImageClassifier&>(net).forward(image);
    }
    if (one_.is_double)
      return {
          {"logits", dynamic_cast<SpoilingNet&>(net).forward(part["image"].to(torch::kDouble))}};
    const at::Tensor noise =
        one_.two_pass ? torch::zeros({1}, here()) : torch::rand({part.units(), 1}, here());
    return {{"logits", dynamic_cast<SpoilingNet&>(net).forward(part["image"] + 0.1 * noise)}};
  }
  NamedTensors loss(const NamedTensors& encoded, const Batch& part) const override {
    if (step_ == spoilt_step && on_loss) on_loss();
    NamedTensors terms = TinyStep::loss(encoded, part);
    if (step_ == spoilt_step && is_nan)
      terms = {{"cross_entropy", terms.at("cross_entropy") * std::nan("")}};
    return terms;
  }

  TrainingResult run() { return train(*this, *network, {data, nullptr}, options, policy, context); }

 private:
  static std::shared_ptr<torch::nn::Module> make_network(const SpoiltCase& one) {
    if (one.is_tower) return on_test_device(tiny_tower());
    return on_test_device(std::make_shared<SpoilingNet>(one.batch_norm));
  }

  const SpoiltCase one_;
  mutable int step_ = 0;

 public:
  const std::shared_ptr<torch::nn::Module> network;
  std::shared_ptr<TinyDataset> data = std::make_shared<TinyDataset>(16);
  TrainerOptions options;
  MemoryPolicy policy;
  RecordingContext context;
  int spoilt_step = 0;
  bool spoils_every_step = false;
  CountingAllocator* counter = nullptr;
  std::int64_t refused = 0;  // the refused block of that step
  std::function<void()> on_loss;
  bool is_nan = false;
  mutable std::optional<SpoiltState> before;  // before the spoiled step
  mutable int parts_ = 0;                     // parts encoded in this step
};

}  // namespace stages
