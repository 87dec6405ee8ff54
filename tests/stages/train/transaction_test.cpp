#include "stages/train/trainer.h"

#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>

#include <gmock/gmock.h>
#include <torch/torch.h>

#include "runner/stage/stage.h"
#include "stages/checkpoint/checkpoint_folder.h"
#include "stages/machine/counting_allocator.h"
#include "stages/random/dropout.h"
#include "stages/numerics/recomputable_module.h"
#include "stages/weights/weights.h"
#include "tests/support/recording_context.h"
#include "tests/support/tiny_step.h"

namespace stages {
namespace {

using testing::ElementsAre;

/// Two layers with dropout, and with BatchNorm where samples may be mixed; all of it is one block.
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
    return last_->forward(dropout_->forward((norm_.is_empty() ? hidden : norm_->forward(hidden)).tanh()));
  }

  mutable torch::nn::Linear first_ = nullptr, last_ = nullptr;
  mutable torch::nn::BatchNorm1d norm_ = nullptr;
  std::shared_ptr<Dropout> dropout_;
};

/// All that a step may change, at one moment.
struct State {
  NamedTensors weights;
  at::Tensor generator;

  static State of(const torch::nn::Module& network) {
    State state{.weights = {}, .generator = at::detail::getDefaultCPUGenerator().get_state()};
    for (const auto& [name, tensor] : stages::weights(network)) state.weights.set(name, tensor.detach().clone());
    return state;
  }
  bool equals(const State& other) const {
    for (const auto& [name, tensor] : weights) {
      if (!tensor.equal(other.weights.at(name))) return false;
    }
    return generator.equal(other.generator);
  }
};

struct Case {
  Precision precision = Precision::kFp32;
  bool batch_norm = true;
  std::optional<std::int64_t> micro_batch = {};
  bool two_pass = false;
  bool recompute = false;
  OptimizerOptions optimizer = SgdOptions{.learning_rate = 0.1, .momentum = 0.9};
};

/// A training of two steps, in either of which something may go wrong. Its encoding takes noise from torch's generator,
/// where it has not to be repeated.
class SpoiltTraining final : public TinyStep {
 public:
  explicit SpoiltTraining(const Case& one) : one_(one), network(std::make_shared<SpoilingNet>(one.batch_norm)) {
    data->options.workers = 0;
    options.epochs = 1;
    options.batch_size = 8;
    options.optimizer = one.optimizer;
    options.gradient_clip_norm = 0.1;
    options.monitor = "loss";
    policy.precision = one.precision;
    policy.micro_batch = one.micro_batch;
    policy.two_pass = one.two_pass;
    policy.activation_checkpointing.blocks = one.recompute;
    context.on_progress = [this](const runner::Progress&) {
      if (counter) counter->refuse(0);  // what follows is the commit, which asks for nothing, and the next batch
    };
    torch::manual_seed(9);
  }

  bool mixes_samples() const override { return one_.batch_norm; }
  std::optional<BadUnit> find_bad_unit(const Batch&) const override {
    ++step_;
    parts_ = 0;
    if (step_ != spoilt_step) return {};
    before = State::of(*network);
    if (counter) counter->refuse(refused);
    return {};
  }
  NamedTensors encode(torch::nn::Module& net, const Batch& part) const override {
    ++parts_;
    const at::Tensor noise = one_.two_pass ? torch::zeros({1}) : torch::rand({part.units(), 1});
    return {{"logits", dynamic_cast<SpoilingNet&>(net).forward(part["image"] + 0.1 * noise)}};
  }
  NamedTensors loss(const NamedTensors& encoded, const Batch& part) const override {
    if (step_ == spoilt_step && on_loss) on_loss();
    NamedTensors terms = TinyStep::loss(encoded, part);
    if (step_ == spoilt_step && is_nan) terms = {{"cross_entropy", terms.at("cross_entropy") * std::nan("")}};
    return terms;
  }

  TrainingResult run() { return train(*this, *network, {data, nullptr}, options, policy, context); }

 private:
  const Case one_;
  mutable int step_ = 0;

 public:
  const std::shared_ptr<torch::nn::Module> network;
  std::shared_ptr<TinyDataset> data = std::make_shared<TinyDataset>(16);
  TrainerOptions options;
  MemoryPolicy policy;
  RecordingContext context;
  int spoilt_step = 0;
  CountingAllocator* counter = nullptr;
  std::int64_t refused = 0;  // the block of that step which is refused
  std::function<void()> on_loss;
  bool is_nan = false;
  mutable std::optional<State> before;  // the spoilt step
  mutable int parts_ = 0;               // encoded in this step
};

/// Refuses each block of a step in turn; the step is run again and everything ends as if nothing had happened.
void refuse_every_block(const Case& one, int spoilt_step) {
  SpoiltTraining undisturbed(one);
  undisturbed.run();
  const State expected = State::of(*undisturbed.network);
  std::int64_t block = 1;
  for (;; ++block) {
    SpoiltTraining spoilt(one);
    CountingAllocator counter;
    spoilt.counter = &counter;
    spoilt.spoilt_step = spoilt_step;
    spoilt.refused = block;
    spoilt.options.replays = 1;
    bool was_refused = false;
    spoilt.context.on_progress = [&, then = spoilt.context.on_progress](const runner::Progress& progress) {
      if (progress.step == spoilt_step) was_refused = !counter.will_refuse();
      then(progress);
    };
    spoilt.run();
    ASSERT_TRUE(State::of(*spoilt.network).equals(expected)) << "block " << block;
    for (const char* name : {"train/loss", "train/gradient_norm", "train/loss_scale"})
      EXPECT_EQ(spoilt.context.values(name), undisturbed.context.values(name)) << name << ", block " << block;
    if (!was_refused) break;
    EXPECT_THAT(spoilt.context.said, testing::Contains("step " + std::to_string(spoilt_step) +
                                                       " ran out of memory and is repeated: 1 of 1"));
  }
  EXPECT_GT(block, 60);
}

TEST(Transaction, StepThatRunsOutOfMemoryIsReplayedBitForBit) { refuse_every_block({}, 2); }

TEST(Transaction, FirstStepToo) {
  refuse_every_block({.optimizer = AdamOptions{.learning_rate = 0.05,
                                               .beta1 = 0.9,
                                               .beta2 = 0.999,
                                               .epsilon = 1e-8,
                                               .weight_decay = 0.01,
                                               .amsgrad = true,
                                               .decoupled = true}},
                     1);
}

TEST(Transaction, ReplayInFp16) { refuse_every_block({.precision = Precision::kFp16}, 2); }

TEST(Transaction, ReplayInMicroBatches) { refuse_every_block({.batch_norm = false, .micro_batch = 3}, 2); }

TEST(Transaction, ReplayInTwoPasses) {
  refuse_every_block({.precision = Precision::kFp16, .batch_norm = false, .micro_batch = 3, .two_pass = true}, 2);
}

TEST(Transaction, ReplayWhereActivationsAreComputedAgain) { refuse_every_block({.recompute = true}, 2); }

/// What the training throws after the first step; its weights, buffers and generator must be those before the second.
std::string error_in_second_step(SpoiltTraining& training) {
  training.spoilt_step = 2;
  std::string message = "nothing was thrown";
  try {
    training.run();
  } catch (const std::exception& error) {
    message = error.what();
  }
  EXPECT_TRUE(State::of(*training.network).equals(training.before.value()));
  for (const at::Tensor& parameter : training.network->parameters()) EXPECT_FALSE(parameter.grad().defined());
  return message;
}

TEST(Transaction, WithoutReplaysTheRunStops) {
  SpoiltTraining training({});
  CountingAllocator counter;
  training.counter = &counter;
  training.refused = 30;
  EXPECT_THAT(error_in_second_step(training), testing::StartsWith("out of memory in "));
  EXPECT_THAT(training.context.said, testing::Each(testing::Not(testing::HasSubstr("is repeated"))));
}

TEST(Transaction, WhatWasDoneBeforeMemoryRanOutIsSaved) {
  SpoiltTraining training({});
  training.on_loss = [] { throw std::bad_alloc(); };
  error_in_second_step(training);
  EXPECT_THAT(training.context.said, testing::Contains("saved after step 1, the last before memory ran out"));
  const auto saved =
      read_checkpoint(training.context.node().folder / "checkpoints/step-00000001", CheckpointPart::kAll);
  EXPECT_EQ(saved.step, 1);
  EXPECT_EQ(saved.batch, 1);
  for (const auto& [name, tensor] : trained_parameters(*training.network)) {
    EXPECT_TRUE(tensor.equal(saved.model.at(name))) << name;
  }
}

TEST(Transaction, AnotherMistakeThanMemorySavesNothing) {
  SpoiltTraining training({});
  training.on_loss = [] { throw std::runtime_error("spoilt"); };
  error_in_second_step(training);
  EXPECT_FALSE(std::filesystem::exists(training.context.node().folder / "checkpoints/step-00000001"));
}

TEST(Transaction, LastingFaultEndsTheReplays) {
  SpoiltTraining training({});
  training.options.replays = 2;
  training.on_loss = [] { throw std::bad_alloc(); };
  error_in_second_step(training);
  training.context.said.resize(3);
  EXPECT_THAT(training.context.said, ElementsAre("step 2 ran out of memory and is repeated: 1 of 2",
                                                 "step 2 ran out of memory and is repeated: 2 of 2",
                                                 "kept from step to step when memory ran out at step 2"));
}

TEST(Transaction, OtherErrorsAreNotReplayedAndLeaveTheLastWholeStep) {
  for (const auto& [one, message] :
       {std::pair(Case{}, "broken"), std::pair(Case{.precision = Precision::kFp16}, "broken"),
        std::pair(Case{.batch_norm = false, .micro_batch = 3}, "broken")}) {
    SpoiltTraining training(one);
    training.options.replays = 2;
    training.on_loss = [&training] {
      if (training.parts_ == 2 || !training.policy.micro_batch) throw std::runtime_error("broken");
    };
    EXPECT_EQ(error_in_second_step(training), message);
    EXPECT_THAT(training.context.said, testing::IsEmpty());
  }
}

TEST(Transaction, LossThatIsNotFiniteLeavesTheLastWholeStep) {
  SpoiltTraining training({});
  training.is_nan = true;
  EXPECT_THAT(error_in_second_step(training), testing::StartsWith("the loss is not finite at step 2"));
}

}  // namespace
}  // namespace stages
