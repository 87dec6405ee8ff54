#include "stages/train/trainer.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include "runner/shared/stage/stage.h"
#include "stages/checkpoint/checkpoint_folder.h"
#include "stages/machine/counting_allocator.h"
#include "stages/numerics/recomputable_module.h"
#include "stages/random/dropout.h"
#include "stages/weights/weights.h"
#include "tests/support/on_test_device.h"
#include "tests/support/optimizer_rules.h"
#include "tests/support/recording_context.h"
#include "tests/support/tiny_step.h"
#include "tests/support/tiny_tower.h"

namespace stages {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::StartsWith;

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
struct State {
  NamedTensors weights;
  at::Tensor generator;

  static State of(const torch::nn::Module& network) {
    State state{.weights = {},
                .generator = at::globalContext().defaultGenerator(here().device()).get_state()};
    for (const auto& [name, tensor] : stages::weights(network))
      state.weights.set(name, tensor.detach().clone());
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
  bool is_double = false;
  bool is_tower = false;  ///< a larger network, in float64
  OptimizerOptions optimizer = SgdOptions{.learning_rate = 0.1, .momentum = 0.9};
};

/// A training run of two steps, either of which may fail. Its encoding uses noise from torch's
/// generator, unless noise must not be repeated.
class SpoiltTraining final : public TinyStep {
 public:
  explicit SpoiltTraining(const Case& one) : one_(one), network(make_network(one)) {
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
    before = State::of(*network);
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
  static std::shared_ptr<torch::nn::Module> make_network(const Case& one) {
    if (one.is_tower) return on_test_device(tiny_tower());
    return on_test_device(std::make_shared<SpoilingNet>(one.batch_norm));
  }

  const Case one_;
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
  mutable std::optional<State> before;  // before the spoiled step
  mutable int parts_ = 0;               // parts encoded in this step
};

/// Returns the live bytes when the step `step` has been computed, before its weights are written.
std::int64_t live_at(SpoiltTraining& training, int step, CountingAllocator& counter) {
  std::int64_t live = 0;
  training.context.on_progress =
      [&, then = training.context.on_progress](const runner::Progress& progress) {
        if (progress.step == step) live = counter.live_bytes();
        then(progress);
      };
  training.run();
  return live;
}

/// Refuses each block of a step in turn. The step is replayed, and the result is the same as
/// without a failure.
void refuse_every_block(const Case& one, int spoilt_step, std::int64_t stride = 1) {
  SpoiltTraining undisturbed(one);
  std::int64_t base_line = 0;
  {
    CountingAllocator counter;
    undisturbed.counter = &counter;
    undisturbed.spoilt_step = spoilt_step;  // its state is kept too, but no block is refused
    base_line = live_at(undisturbed, spoilt_step, counter);
  }
  const State expected = State::of(*undisturbed.network);
  std::int64_t block = 1;
  for (;; block += stride) {
    SpoiltTraining spoilt(one);
    CountingAllocator counter;
    spoilt.counter = &counter;
    spoilt.spoilt_step = spoilt_step;
    spoilt.refused = block;
    spoilt.policy.recovery.max_retries = 1;
    bool was_refused = false;
    spoilt.context.on_progress =
        [&, then = spoilt.context.on_progress](const runner::Progress& progress) {
          if (progress.step == spoilt_step) was_refused = !counter.will_refuse();
          then(progress);
        };
    EXPECT_EQ(live_at(spoilt, spoilt_step, counter), base_line) << "block " << block;
    ASSERT_TRUE(State::of(*spoilt.network).equals(expected)) << "block " << block;
    for (const char* name : {"train/loss", "train/gradient_norm", "train/loss_scale"})
      EXPECT_EQ(spoilt.context.values(name), undisturbed.context.values(name))
          << name << ", block " << block;
    if (!was_refused) break;
    EXPECT_THAT(spoilt.context.said,
                testing::Contains(
                    AllOf(StartsWith("step " + std::to_string(spoilt_step) + ": out of memory"),
                          EndsWith(": repeated unchanged, retry 1 of 1"))));
    ASSERT_EQ(spoilt.context.recoveries.size(), 1);
    EXPECT_EQ(spoilt.context.recoveries[0].step, spoilt_step);
    EXPECT_EQ(spoilt.context.recoveries[0].from, spoilt.context.recoveries[0].to);
    EXPECT_GT(spoilt.context.recoveries[0].tried, 0);
  }
  EXPECT_GT(block, 60);
}

/// Refuses each block of a step in turn, and one of its replay too: the step is then computed in
/// the next way, which gives the same weights in exact arithmetic, or with `bits` the same bits.
/// Both ways compute in float64.
void refuse_every_block_twice(const Case& one, Allow allow, const std::string& way, bool bits,
                              std::int64_t stride = 1) {
  SpoiltTraining undisturbed(one);
  std::int64_t base_line = 0;
  {
    CountingAllocator counter;
    undisturbed.counter = &counter;
    undisturbed.spoilt_step = 2;  // its state is kept too, but no block is refused
    undisturbed.run();
    base_line = counter.live_bytes();
  }
  std::int64_t block = 1;
  for (;; block += stride) {
    SpoiltTraining spoilt(one);
    CountingAllocator counter;
    spoilt.counter = &counter;
    spoilt.spoilt_step = 2;
    spoilt.refused = block;
    spoilt.policy.allow = allow;
    spoilt.policy.recovery.max_retries.reset();
    int refusals = 0;
    spoilt.context.on_say = [&](std::string_view line) {
      if (!line.ends_with(": repeated unchanged, retry 1")) return;
      refusals = 1;
      counter.refuse(std::max<std::int64_t>(1, block / 2));
    };
    spoilt.run();
    const auto& recoveries = spoilt.context.recoveries;
    for (const auto& [name, tensor] : weights(*spoilt.network)) {
      const at::Tensor expected = weights(*undisturbed.network).at(name);
      if (bits || !tensor.is_floating_point())
        EXPECT_TRUE(tensor.equal(expected)) << name << ", block " << block;
      else
        EXPECT_LT(((tensor - expected).norm() / expected.norm()).item<double>(), 1e-12)
            << name << ", block " << block;
    }
    EXPECT_EQ(counter.live_bytes(), base_line) << "block " << block;
    if (testing::Test::HasFailure()) return;
    if (refusals == 0) break;
    ASSERT_EQ(recoveries.size(), 2) << "block " << block;
    EXPECT_EQ(recoveries[1].from, "the whole batch of 8");
    EXPECT_EQ(recoveries[1].to, way);
  }
  EXPECT_GT(block, 30);
}

TEST(Transaction, StepThatRunsOutOfMemoryIsReplayedBitForBit) { refuse_every_block({}, 2); }

TEST(Transaction, FirstStepOfAmsgradAndUnfusedRulesIsReplayed) {
  for (const OptimizerOptions& rule : std::span(kEveryRule).subspan(6, 5))
    refuse_every_block({.precision = Precision::kFp16, .optimizer = rule}, 1);
}

TEST(Transaction, ReplayWorksInFp16) { refuse_every_block({.precision = Precision::kFp16}, 2); }

TEST(Transaction, ReplayWorksInMicroBatches) {
  refuse_every_block({.batch_norm = false, .micro_batch = 3}, 2);
}

TEST(Transaction, ReplayWorksInTwoPasses) {
  refuse_every_block(
      {.precision = Precision::kFp16, .batch_norm = false, .micro_batch = 3, .two_pass = true}, 2);
}

TEST(Transaction, ReplayWorksWithActivationCheckpointing) {
  refuse_every_block({.recompute = true}, 2);
}

TEST(Transaction, LargerNetworkIsReplayedBitForBit) {
  refuse_every_block({.batch_norm = false, .is_tower = true}, 2, 29);
}

TEST(Transaction, PersistentFaultSplitsTheBatch) {
  refuse_every_block_twice({.batch_norm = false, .is_double = true}, Allow::kNothing,
                           "micro_batch 4", /*bits=*/false);
}

TEST(Transaction, PersistentFaultInALargerNetworkSplitsTheBatch) {
  refuse_every_block_twice({.batch_norm = false, .is_tower = true}, Allow::kExact, "micro_batch 4",
                           /*bits=*/false, 31);
}

TEST(Transaction, PersistentFaultInLayersThatMixSamplesRecomputesBlocksBitForBit) {
  refuse_every_block_twice({.batch_norm = true, .is_double = true}, Allow::kExact,
                           "the whole batch of 8, blocks recomputed", /*bits=*/true);
}

/// Returns the error of the training after the first step; its weights, buffers and generator must
/// be those before the second step.
std::string error_in_second_step(SpoiltTraining& training) {
  training.spoilt_step = 2;
  std::string message = "nothing was thrown";
  try {
    training.run();
  } catch (const std::exception& error) {
    message = error.what();
  }
  EXPECT_TRUE(State::of(*training.network).equals(training.before.value()));
  for (const at::Tensor& parameter : training.network->parameters())
    EXPECT_FALSE(parameter.grad().defined());
  return message;
}

/// Returns the first `count` lines of the training's log, without the GPU memory at its start.
std::vector<std::string> said_first(const SpoiltTraining& training, std::size_t count) {
  std::vector<std::string> said = training.context.said;
  std::erase_if(said, [](const std::string& line) { return line.starts_with("memory at "); });
  said.resize(std::min(count, said.size()));
  return said;
}

TEST(Transaction, RunStopsWithoutReplays) {
  SpoiltTraining training({});
  CountingAllocator counter;
  training.counter = &counter;
  training.refused = 30;
  EXPECT_THAT(error_in_second_step(training), StartsWith("out of memory in "));
  EXPECT_THAT(training.context.said, testing::Each(testing::Not(testing::HasSubstr("repeated"))));
  EXPECT_TRUE(training.context.recoveries.empty());
}

TEST(Transaction, StepsBeforeOutOfMemoryAreSaved) {
  SpoiltTraining training({});
  training.on_loss = [] { throw std::bad_alloc(); };
  error_in_second_step(training);
  EXPECT_THAT(training.context.said,
              testing::Contains("saved after step 1, the last step before memory ran out"));
  const auto saved = read_checkpoint(training.context.node().folder / "checkpoints/step-00000001",
                                     CheckpointPart::kAll);
  EXPECT_EQ(saved.step, 1);
  EXPECT_EQ(saved.batch, 1);
  for (const auto& [name, tensor] : trained_parameters(*training.network)) {
    EXPECT_TRUE(tensor.cpu().equal(saved.model.at(name))) << name;
  }
}

TEST(Transaction, OtherErrorsSaveNothing) {
  SpoiltTraining training({});
  training.on_loss = [] { throw std::runtime_error("spoilt"); };
  error_in_second_step(training);
  EXPECT_FALSE(
      std::filesystem::exists(training.context.node().folder / "checkpoints/step-00000001"));
}

TEST(Transaction, PersistentFaultEndsTheReplays) {
  SpoiltTraining training({.batch_norm = false});
  training.policy.recovery.max_retries = 2;
  training.on_loss = [] { throw std::bad_alloc(); };
  error_in_second_step(training);
  EXPECT_THAT(said_first(training, 3),
              ElementsAre("step 2: out of memory: repeated unchanged, retry 1 of 2",
                          "step 2: out of memory: repeated with micro_batch 4 instead of the "
                          "whole batch of 8, retry 2 of 2",
                          "kept from step to step when memory ran out at step 2"));
}

TEST(Transaction, UnlimitedRetriesContinueDownToTheMinimum) {
  SpoiltTraining training({.batch_norm = false});
  training.policy.min_micro_batch = 2;
  training.policy.recovery.max_retries.reset();
  training.on_loss = [] { throw std::bad_alloc(); };
  error_in_second_step(training);
  EXPECT_THAT(
      said_first(training, 4),
      ElementsAre(
          "step 2: out of memory: repeated unchanged, retry 1",
          "step 2: out of memory: repeated with micro_batch 4 instead of the whole batch of 8, "
          "retry 2",
          "step 2: out of memory: repeated with micro_batch 2 instead of micro_batch 4, retry 3",
          "kept from step to step when memory ran out at step 2"));
}

TEST(Transaction, FailedPlanIsNotUsedInTheNextStep) {
  SpoiltTraining training({.batch_norm = false});
  training.policy.recovery.max_retries = 2;
  training.spoilt_step = 1;
  training.on_loss = [&] {
    if (training.context.recoveries.size() < 2) throw std::bad_alloc();
  };
  training.run();
  EXPECT_EQ(training.context.recoveries.size(), 2);
  EXPECT_EQ(training.parts_, 2) << "the second step is cut too";
}

TEST(Transaction, RetriesAreCountedForEachStep) {
  SpoiltTraining training({.batch_norm = false});
  CountingAllocator counter;
  training.counter = &counter;
  training.policy.recovery.max_retries = 1;
  training.refused = 20;
  training.spoils_every_step = true;
  training.run();
  EXPECT_EQ(training.context.recoveries.size(), 2);
}

TEST(Transaction, NothingIsRetriedWithoutReplan) {
  SpoiltTraining training({.batch_norm = false});
  training.policy.recovery.max_retries.reset();
  training.policy.recovery.on_oom = {OnOom::kStop};
  training.on_loss = [] { throw std::bad_alloc(); };
  error_in_second_step(training);
  EXPECT_TRUE(training.context.recoveries.empty());
}

TEST(Transaction, OtherErrorsAreNotReplayedAndKeepTheLastStep) {
  for (const auto& [one, message] :
       {std::pair(Case{}, "broken"), std::pair(Case{.precision = Precision::kFp16}, "broken"),
        std::pair(Case{.batch_norm = false, .micro_batch = 3}, "broken")}) {
    SpoiltTraining training(one);
    training.policy.recovery.max_retries = 2;
    training.on_loss = [&training] {
      if (training.parts_ == 2 || !training.policy.micro_batch) throw std::runtime_error("broken");
    };
    EXPECT_EQ(error_in_second_step(training), message);
    EXPECT_THAT(said_first(training, 1), testing::IsEmpty());
  }
}

TEST(Transaction, NonFiniteLossKeepsTheLastStep) {
  SpoiltTraining training({});
  training.is_nan = true;
  EXPECT_THAT(error_in_second_step(training), StartsWith("the loss is not finite at step 2"));
}

TEST(Transaction, NonFiniteLossThatIsNoticedLaterKeepsTheLastStep) {
  const auto check = [](const Case& one, bool in_backward) {
    SpoiltTraining training(one);
    training.data = std::make_shared<TinyDataset>(6 * 8);
    training.data->options.workers = 0;
    training.options.log_every = 1000;
    training.policy.optimizer_in_backward = in_backward;
    if (in_backward) training.options.gradient_clip_norm.reset();
    training.is_nan = true;
    EXPECT_THAT(error_in_second_step(training), StartsWith("the loss is not finite at step 2"));
  };
  check({}, false);
  check({.precision = Precision::kFp16}, false);
  check({.batch_norm = false, .micro_batch = 3}, false);
  check({}, true);
}

}  // namespace
}  // namespace stages
