// The optimizer in the backward pass: the same bits, with fewer gradients at once.
#include "stages/train/step_execution.h"

#include <gmock/gmock.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include "runner/shared/stage/stage.h"
#include "stages/machine/counting_allocator.h"
#include "stages/weights/weights.h"
#include "tests/support/gradients.h"
#include "tests/support/on_test_device.h"
#include "tests/support/refused.h"
#include "tests/support/tiny_training.h"

namespace stages {
namespace {

using testing::Contains, testing::HasSubstr, testing::Not, testing::StartsWith;

constexpr std::int64_t kMostBlocks = 1000;  // an upper bound of the blocks of a step

const StepPlan kInBackward{.optimizer_in_backward = true};

NamedTensors copies_of(const torch::nn::Module& network) {
  NamedTensors copies;
  for (const auto& [name, tensor] : weights(network)) copies.set(name, tensor.detach().clone());
  return copies;
}

/// Returns the weights of a DroppingNet after three steps.
NamedTensors after_three_steps(const OptimizerOptions& rule, const StepPlan& plan,
                               std::optional<WeightAverageOptions> average = {}) {
  DroppingNet network(Drops::kAll);
  network.to(at::Device(test_device()));
  const DroppingStep step;
  StepExecution execution(
      step, network, {{.name = "", .optimizer = rule, .parameters = trained_parameters(network)}},
      plan, {}, at::Device(test_device()), average);
  for (const std::int64_t number : {1, 2, 3}) {
    const StepExecution::Computed computed = execution.compute(ten_samples(), {7, number});
    EXPECT_EQ(computed.gradients.empty(), plan.optimizer_in_backward);
    execution.commit(computed);
    EXPECT_FALSE(execution.is_half_written());
  }
  if (average) execution.average()->swap();
  return copies_of(network);
}

TEST(StepsInBackward, WeightsAreEqualBitForBit) {
  constexpr OptimizerOptions kRules[] = {
      SgdOptions{.learning_rate = 0.1, .momentum = 0.9, .dampening = 0.5}, kAdamW};
  for (const OptimizerOptions& rule : kRules) {
    for (const bool recomputes : {false, true}) {
      const StepPlan plain{.activation_checkpointing = {.blocks = recomputes}};
      const NamedTensors expected = after_three_steps(rule, plain);
      for (const bool offloads : {false, true}) {
        for (const bool in_backward : {false, true}) {
          StepPlan plan = plain;
          plan.offloads_optimizer = offloads;
          plan.optimizer_in_backward = in_backward;
          for (const auto& [name, weight] : after_three_steps(rule, plan))
            EXPECT_TRUE(weight.equal(expected.at(name)))
                << name << offloads << in_backward << recomputes;
        }
      }
    }
  }
}

TEST(StepsInBackward, WeightAverageIsEqualBitForBit) {
  constexpr WeightAverageOptions kAverage{.decay = 0.6};
  const NamedTensors expected = after_three_steps(kAdamW, {}, kAverage);
  const StepPlan plan{.offloads_optimizer = true, .optimizer_in_backward = true};
  for (const auto& [name, weight] : after_three_steps(kAdamW, plan, kAverage))
    EXPECT_TRUE(weight.equal(expected.at(name))) << name;
}

/// Sixteen successive products with square weights; in some of the networks, two of them share a
/// weight.
class DeepNet : public torch::nn::Module {
 public:
  static constexpr std::int64_t kDepth = 16;
  DeepNet(std::int64_t width, bool shares) : shares_(shares) {
    torch::manual_seed(4);
    for (std::int64_t i = 0; i < kDepth; ++i)
      weights_.push_back(
          register_parameter("w" + std::to_string(i), 0.05 * torch::randn({width, width}, here())));
  }
  at::Tensor forward(at::Tensor x) {
    for (std::int64_t i = 0; i < kDepth; ++i)
      x = x.mm(shares_ && i == 3 ? weights_[12] : weights_[i]).tanh();
    return x;
  }

 private:
  const bool shares_;
  std::vector<at::Tensor> weights_;
};

class DeepStep final : public TinyStep {
 public:
  NamedTensors encode(torch::nn::Module& network, const Batch& part) const override {
    return {{"logits", dynamic_cast<DeepNet&>(network).forward(part["image"]) * scale}};
  }
  double scale = 1;
};

struct DeepRun {
  explicit DeepRun(const StepPlan& plan, bool shares = false, std::int64_t width = 16)
      : batch({{"image", torch::linspace(-1, 1, 4 * width).view({4, width})},
               {"label", torch::tensor({1, 2, 3, 4})}},
              4),
        network(width, shares),
        execution(step, network,
                  {{.name = "", .optimizer = kAdamW, .parameters = trained_parameters(network)}},
                  plan, {}, at::Device(test_device())) {}
  StepExecution::Computed compute(std::int64_t number) {
    return execution.compute(batch, {7, number});
  }
  void run(std::int64_t steps) {
    for (std::int64_t number = 1; number <= steps; ++number) execution.commit(compute(number));
  }
  const Batch batch;
  DeepStep step;
  DeepNet network;
  StepExecution execution;
};

TEST(StepsInBackward, SharedWeightIsUpdatedOnceWithItsWholeGradient) {
  DeepRun plain({}, true), in_backward(kInBackward, true);
  plain.run(3);
  in_backward.run(3);
  for (const auto& [name, weight] : weights(in_backward.network))
    EXPECT_TRUE(weight.equal(weights(plain.network).at(name))) << name;
  EXPECT_EQ(in_backward.execution.optimizer().state().at("w12.age").item<double>(), 3);
  EXPECT_FALSE(in_backward.execution.optimizer().state().contains("w3.age"));
}

TEST(StepsInBackward, GradientsDoNotAllExistAtOnce) {
  constexpr std::int64_t kWidth = 512, kWeight = kWidth * kWidth * 4;  // one mebibyte
  const auto peak_of_second_step = [](const StepPlan& plan) {
    CountingAllocator counter;
    DeepRun run(plan, /*shares=*/false, kWidth);
    run.run(1);
    counter.restart_peak();
    const std::int64_t before = counter.live_bytes();
    run.execution.commit(run.compute(2));
    EXPECT_LE(counter.live_bytes(), before + 1024);
    return counter.peak_bytes() - before;
  };
  const std::int64_t all = DeepNet::kDepth * kWeight;
  EXPECT_GE(peak_of_second_step({}), all);
  EXPECT_LE(peak_of_second_step(kInBackward), 4 * kWeight);
  StepPlan both = kInBackward;
  both.offloads_optimizer = true;
  EXPECT_LE(peak_of_second_step(both), 6 * kWeight)
      << "only the two moments of one weight are on the device at a time";
}

TEST(StepsInBackward, NonFiniteLossWritesNothing) {
  for (const bool offloads : {false, true}) {
    StepPlan plan = kInBackward;
    plan.offloads_optimizer = offloads;
    DeepRun run(plan);
    run.run(1);
    const NamedTensors before = copies_of(run.network);
    run.step.scale = std::nan("");
    const StepExecution::Computed computed = run.compute(2);
    EXPECT_FALSE(std::isfinite(computed.numbers.means().loss));
    for (const auto& [name, weight] : weights(run.network))
      EXPECT_TRUE(weight.equal(before.at(name))) << name;
    EXPECT_EQ(run.execution.optimizer().state().at("w0.age").item<double>(), 1);
  }
}

/// Refuses each block of the second step in turn, until no more are requested.
TEST(StepsInBackward, FailureBeforeTheFirstWriteCanBeUndone) {
  int undone = 0, half_written = 0;
  for (std::int64_t block = 1;; ++block) {
    ASSERT_LT(block, kMostBlocks);
    CountingAllocator counter;
    DeepRun run(kInBackward);
    run.run(1);
    const NamedTensors before = copies_of(run.network);
    counter.refuse(block);
    try {
      run.compute(2);
      break;
    } catch (const std::exception&) {
    }
    bool is_same = true;
    for (const auto& [name, weight] : weights(run.network))
      is_same &= weight.equal(before.at(name));
    if (!is_same) EXPECT_TRUE(run.execution.is_half_written()) << block;
    ++(run.execution.is_half_written() ? half_written : undone);
    // A failure leaves nothing behind that would update a weight.
    run.network.zero_grad();
    const at::Tensor weight = run.network.parameters()[0];
    run.step.encode(run.network, run.batch).at("logits").sum().backward();
    EXPECT_TRUE(weight.grad().defined()) << block;
  }
  EXPECT_GT(undone, 20);
  EXPECT_GT(half_written, 20);
}

struct TrainingInBackward : TinyTraining {
  TrainingInBackward() {
    policy.pointer = "/memory";
    policy.optimizer_in_backward = true;
    options.epochs = 1;
  }
};

TEST(StepsInBackward, TrainingIsEqualBitForBit) {
  TinyTraining plain, other;
  for (TinyTraining* training : {&plain, &other}) {
    training->options.schedule = CosineSchedule{};
    training->options.average = WeightAverageOptions{.decay = 0.5};
  }
  other.policy.optimizer_in_backward = true;
  plain.run();
  other.run();
  EXPECT_TRUE(other.flat_weights().equal(plain.flat_weights()));
  EXPECT_EQ(other.context.values("train/loss"), plain.context.values("train/loss"));
  EXPECT_EQ(other.context.values("validation/loss"), plain.context.values("validation/loss"));
}

TEST(StepsInBackward, BrokenSampleEndsTrainingAsUsual) {
  const auto outcome = [](bool in_backward) {
    TinyTraining training;
    training.policy.optimizer_in_backward = in_backward;
    training.train_data->broken = {11};
    const std::string error = training.error();
    return std::pair(error, training.flat_weights());
  };
  const auto plain = outcome(false), other = outcome(true);
  EXPECT_NE(plain.first, "");
  EXPECT_EQ(other.first, plain.first);
  EXPECT_TRUE(other.second.equal(plain.second));
}

/// A training run in which one block is refused, counted from the beginning of step 3.
struct Refused {
  explicit Refused(std::int64_t block) {
    training.policy.recovery.max_retries = 1;
    training.train_data->options.workers = training.validation->options.workers = 0;
    CountingAllocator counter;
    training.context.on_progress = [&](const runner::Progress& progress) {
      if (progress.phase == "train" && progress.step == 2) counter.refuse(block);
      if (progress.phase == "train" && progress.step == 3 && counter.will_refuse())
        counter.refuse(0), is_over = true;
    };
    error = training.error();
  }
  TrainingInBackward training;
  std::string error;
  bool is_over = false;
};

TEST(StepsInBackward, StepIsRepeatedUnlessAWeightIsWritten) {
  TrainingInBackward undisturbed;
  undisturbed.run();
  int repeated = 0, given_up = 0;
  for (std::int64_t block = 1;; ++block) {
    ASSERT_LT(block, kMostBlocks);
    const Refused refused(block);
    if (refused.is_over) break;
    if (refused.error.empty()) {
      ++repeated;
      EXPECT_TRUE(refused.training.flat_weights().equal(undisturbed.flat_weights())) << block;
      continue;
    }
    ++given_up;
    EXPECT_EQ(refused.training.code, runner::ErrorCode::kOutOfMemory) << refused.error;
    EXPECT_THAT(refused.training.context.said,
                Contains("step 3 has already updated some of the weights (optimizer_in_backward), "
                         "so it cannot be undone: continue from the last checkpoint"));
    EXPECT_THAT(refused.training.context.said, Not(Contains(HasSubstr("saved after step"))));
    EXPECT_EQ(refused.training.context.flushes, 0) << "nothing is saved";
  }
  EXPECT_GT(repeated, 5);
  EXPECT_GT(given_up, 0);
}

runner::Diagnostics refusal_of_change(const std::function<void(TinyTraining&)>& change) {
  TrainingInBackward training;
  change(training);
  return refusals_of([&] { training.run(); });
}

TEST(StepsInBackward, OptionsThatNeedAllGradientsAreRejected) {
  EXPECT_REFUSED(refusal_of_change([](TinyTraining& one) { one.options.gradient_clip_norm = 1; }),
                 kOptionConflict, "/memory/optimizer_in_backward", "gradient_clip_norm: null");
  EXPECT_REFUSED(refusal_of_change([](TinyTraining& one) { one.policy.micro_batch = 3; }),
                 kOptionConflict, "/memory/optimizer_in_backward", "micro_batch 3",
                 "micro_batch: auto");
  EXPECT_REFUSED(
      refusal_of_change([](TinyTraining& one) { one.policy.precision = Precision::kFp16; }),
      kOptionConflict, "/memory/optimizer_in_backward", "precision: bf16");
  EXPECT_THAT(refusal_of_change([](TinyTraining& one) { one.policy.micro_batch = 8; }),
              testing::IsEmpty())
      << "which does not split the batch";
}

TEST(StepsInBackward, OffloadingReportsNoEffectOnACpu) {
  TinyTraining training, plain;
  training.policy.offloads_optimizer = true;
  training.run();
  plain.run();
  EXPECT_THAT(training.context.said, Contains("offload: optimizer has no effect on the CPU: the "
                                              "optimizer state is in host memory anyway"));
  EXPECT_THAT(plain.context.said, Not(Contains(StartsWith("offload"))));
  EXPECT_TRUE(training.flat_weights().equal(plain.flat_weights()));
}

}  // namespace
}  // namespace stages
