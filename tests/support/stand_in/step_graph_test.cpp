// Training runs with micro-batches that are replayed from a CUDA graph.

#include "stages/train/step_graph.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "stages/machine/counting_allocator.h"
#include "stages/machine/memory_meter.h"
#include "stages/plan/gpu_backend.h"
#include "stages/random/dropout.h"
#include "stages/train/plan_training.h"
#include "tests/support/planning_context.h"
#include "tests/support/refused.h"
#include "tests/support/stand_in/card_allocator.h"
#include "tests/support/stand_in/counts.h"
#include "tests/support/stand_in/replayed_training.h"
#include "tests/support/tower_planning.h"

namespace stand_in {
namespace {

using stages::Precision;

const std::vector<std::pair<std::string, Change>>& variants() {
  static const std::vector<std::pair<std::string, Change>> all = {
      {"plain", [](Replayed&) {}},
      {"fp16", [](Replayed& one) { one.policy.precision.base = Precision::kFp16; }},
      {"bf16", [](Replayed& one) { one.policy.precision.base = Precision::kBf16; }},
      {"in parts", [](Replayed& one) { one.policy.micro_batch = 3; }},
      {"fp16 in parts",
       [](Replayed& one) {
         one.policy.precision.base = Precision::kFp16;
         one.policy.micro_batch = 4;
       }},
      {"clipped", [](Replayed& one) { one.options.gradient_clip_norm = 0.1; }},
      {"averaged",
       [](Replayed& one) { one.options.average = stages::WeightAverageOptions{.decay = 0.9}; }},
      {"offloaded", [](Replayed& one) { one.policy.offloads_optimizer = true; }},
      {"by SGD",
       [](Replayed& one) {
         one.options.optimizer = stages::SgdOptions{.learning_rate = 0.1, .momentum = 0.9};
       }},
  };
  return all;
}

TEST(StepGraphs, DoNotChangeAnyBits) {
  for (const auto& [name, change] : variants()) {
    Replayed replayed(true), computed(false);
    change(replayed);
    change(computed);
    replayed.run();
    computed.run();
    EXPECT_TRUE(replayed.flat_weights().equal(computed.flat_weights())) << name;
    EXPECT_EQ(replayed.context.values("train/loss"), computed.context.values("train/loss")) << name;
    EXPECT_EQ(replayed.recorded(), 1) << name << ": once in a plan";
    EXPECT_EQ(computed.recorded(), 0) << name;
  }
}

at::Tensor weights_of(const torch::nn::Module& network) {
  std::vector<at::Tensor> all;
  for (const auto& [name, weight] : stages::weights(network))
    all.push_back(weight.detach().flatten().to(at::kDouble).cpu());
  return torch::cat(all);
}

TEST(StepGraphs, DoNotChangeAnyBitsOfATowerWithRecomputedBlocks) {
  for (const bool is_half : {false, true}) {
    std::vector<at::Tensor> weights;
    for (const bool replays : {true, false}) {
      stages::TowerPlanning tower(2, {20, 16}, 16);
      tower.policy.cuda_graphs = replays;
      tower.policy.activation_checkpointing.blocks = true;
      if (is_half) tower.policy.precision.base = Precision::kBf16;
      tower.options.batch_size = 8;
      tower.options.epochs = 3;
      RecordingContext context;
      context.facts.device = "cuda:0";
      const auto network = tower.model.build(tower.data.describe(), 1);
      stages::train(tower.step, *network, {std::make_shared<NoiseImages>(tower.data), nullptr},
                    tower.options, tower.policy, context);
      weights.push_back(weights_of(*network));
      EXPECT_EQ(std::ranges::count_if(context.said,
                                      [](const std::string& line) {
                                        return line.find("recorded a CUDA graph") != line.npos;
                                      }),
                replays ? 1 : 0);
    }
    EXPECT_TRUE(weights[0].equal(weights[1])) << is_half;
  }
}

/// TinyStep on a network with BatchNorm.
struct NormalizedStep final : TinyStep {
  bool mixes_samples() const override { return true; }
  static std::shared_ptr<torch::nn::Module> network() {
    torch::manual_seed(7);
    return torch::nn::Sequential(TinyLinear(2, 8, at::kCPU), torch::nn::BatchNorm1d(8),
                                 torch::nn::Tanh(), TinyLinear(8, 3, at::kCPU))
        .ptr();
  }
};

TEST(StepGraphs, RunningStatisticsAreUpdatedOnceInAStep) {
  std::vector<at::Tensor> weights;
  for (const bool replays : {true, false}) {
    Replayed training(replays);
    const NormalizedStep step;
    const auto network = NormalizedStep::network();
    stages::train(step, *network, {training.train_data, training.validation}, training.options,
                  training.policy, training.context);
    weights.push_back(weights_of(*network));
    EXPECT_EQ(training.recorded(), replays ? 1 : 0);
  }
  EXPECT_TRUE(weights[0].equal(weights[1]));
}

TEST(StepGraphs, StepsHaveFewerLaunchesAndNoWait) {
  for (const auto& [name, change] : variants()) {
    if (name == "offloaded") continue;  // its copies wait
    const auto run = [&, &change = change](Replayed& training) {
      change(training);
      training.run();
    };
    const Counts replayed = of_eight_steps(true, run), computed = of_eight_steps(false, run);
    EXPECT_LT(replayed.launches, computed.launches * 3 / 4) << name;
    EXPECT_EQ(replayed.waits, 0) << name;
    EXPECT_EQ(replayed.copies_to_gpu, computed.copies_to_gpu) << name;
  }
}

TEST(StepGraphs, AreRecordedAgainAfterAStepRanOutOfMemory) {
  for (const std::int64_t block : {1, 2, 5}) {
    Replayed whole(true), refused(true);
    refused.policy.recovery.max_retries = 1;
    whole.run();
    refused.context.on_say = [&](std::string_view line) {
      if (line.find("recorded") != line.npos && refused.context.recoveries.empty())
        card_allocator().refuse(block);
    };
    refused.run();
    EXPECT_EQ(refused.context.recoveries.size(), 1U) << block;
    EXPECT_EQ(refused.recorded(), 2) << block;
    EXPECT_TRUE(refused.flat_weights().equal(whole.flat_weights())) << block;
  }
}

/// Has a block refused in the third step, which would be recorded.
struct RefusedStep final : TinyStep {
  explicit RefusedStep(std::int64_t block) : block(block) {}
  void constrain(torch::nn::Module&) const override {
    if (++steps == 2) card_allocator().refuse(block);
  }
  const std::int64_t block;
  mutable int steps = 0;
};

TEST(StepGraphs, OutOfMemoryWhileRecordingRepeatsTheStep) {
  Replayed whole(true);
  whole.run();
  for (const std::int64_t block : {6, 12, 18, 24}) {
    Replayed refused(true);
    refused.policy.recovery.max_retries = 1;
    const RefusedStep step(block);
    stages::train(step, *refused.network, {refused.train_data, refused.validation}, refused.options,
                  refused.policy, refused.context);
    EXPECT_EQ(refused.context.recoveries.size(), 1U) << block;
    EXPECT_TRUE(refused.flat_weights().equal(whole.flat_weights())) << block;
    EXPECT_EQ(refused.recorded(), 1) << block;
  }
}

/// Moves a weight, or freezes one, after a step.
struct MovingStep final : TinyStep {
  void constrain(torch::nn::Module& network) const override {
    if (++steps != 5) return;
    at::Tensor weight = network.parameters().front();
    if (freezes) weight.requires_grad_(false);
    else weight.set_data(weight.detach().clone());
  }
  bool freezes = false;
  mutable int steps = 0;
};

TEST(StepGraphs, AreRecordedAgainIfAWeightHasMovedOrIsNoLongerTrained) {
  for (const bool freezes : {false, true}) {
    std::vector<at::Tensor> weights;
    for (const bool replays : {true, false}) {
      Replayed training(replays);
      MovingStep step;
      step.freezes = freezes;
      stages::train(step, *training.network, {training.train_data, training.validation},
                    training.options, training.policy, training.context);
      weights.push_back(training.flat_weights());
      EXPECT_EQ(training.recorded(), replays ? 2 : 0) << freezes;
    }
    EXPECT_TRUE(weights[0].equal(weights[1])) << freezes;
  }
}

TEST(StepGraphs, RunTooShortToRecordIsUnchanged) {
  Replayed shorter(true), computed(false);
  for (Replayed* one : {&shorter, &computed}) {
    one->train_data = std::make_shared<TinyDataset>(16);
    one->options.epochs = 1;
    one->run();
  }
  EXPECT_EQ(shorter.recorded(), 0);
  EXPECT_TRUE(shorter.flat_weights().equal(computed.flat_weights()));
}

TEST(StepGraphs, MemoryIsFreeAfterTraining) {
  const auto in_use = [] { return card_allocator().getDeviceStats(0).allocated_bytes[0].current; };
  const std::int64_t before = in_use();
  Replayed(true).run();
  EXPECT_EQ(in_use(), before);
  stages::empty_cache(at::Device(at::kCUDA, 0));
}

TEST(StepGraphs, AreRefusedWithTheReason) {
  const auto refused = [](const Change& change) {
    Replayed training;
    change(training);
    return refusals_of([&] { training.run(); });
  };
  EXPECT_TRUE(are_refused(refused([](Replayed& one) { one.context.facts.device = "cpu"; }),
                          {{kOptionConflict, "/memory/cuda_graphs", {"the CPU"}}}));
  EXPECT_TRUE(are_refused(refused([](Replayed& one) { one.step.why_computed = "it is drawn"; }),
                          {{kOptionConflict, "/memory/cuda_graphs", {"it is drawn"}}}));
  EXPECT_TRUE(are_refused(refused([](Replayed& one) { one.policy.optimizer_in_backward = true; }),
                          {{kOptionConflict, "/memory/cuda_graphs", {"optimizer_in_backward"}}}));
  EXPECT_TRUE(are_refused(refused([](Replayed& one) {
                            one.step.coupling = stages::Coupling::kWholeBatch;
                            one.policy.micro_batch = 4;
                            one.policy.two_pass = true;
                          }),
                          {{kOptionConflict, "/memory/cuda_graphs", {"two_pass"}}}));
}

/// Dropout as a module of a torch::nn::Sequential.
struct Dropping : torch::nn::Module {
  explicit Dropping(double probability)
      : dropout(register_module("dropout", std::make_shared<stages::Dropout>(probability))) {}
  at::Tensor forward(const at::Tensor& x) { return dropout->forward(x); }
  const std::shared_ptr<stages::Dropout> dropout;
};

/// A network with activations that need far more memory than its weights. Drops elements of its
/// input.
class WideModel final : public stages::Model {
 public:
  std::shared_ptr<torch::nn::Module> build(const stages::DatasetDescription&,
                                           std::uint64_t seed) const override {
    torch::manual_seed(seed);
    return make(at::kCPU);
  }
  std::shared_ptr<torch::nn::Module> outline(const stages::DatasetDescription&) const override {
    return make(at::kMeta);
  }
  stages::NamedTensors forward(torch::nn::Module& network,
                               const stages::NamedTensors& inputs) const override {
    return {
        {"logits", dynamic_cast<torch::nn::SequentialImpl&>(network).forward(inputs.at("image"))}};
  }
  bool mixes_samples() const override { return false; }

 private:
  static std::shared_ptr<torch::nn::Module> make(at::Device device) {
    constexpr std::int64_t kWide = 1 << 17;
    return torch::nn::Sequential(Dropping(0.1), TinyLinear(2, kWide, device), torch::nn::Tanh(),
                                 torch::nn::Sigmoid(), torch::nn::Tanh(),
                                 TinyLinear(kWide, 3, device))
        .ptr();
  }
};

/// TinyStep on a WideModel.
struct WideStep final : TinyStep {
  stages::NamedTensors encode(torch::nn::Module& network,
                              const stages::Batch& part) const override {
    return wide.forward(network, part.tensors());
  }
  WideModel wide;
};

TEST(StepGraphs, PlanIncludesTheMemoryOfGraphs) {
  const at::Device card(at::kCUDA, 0);
  for (const std::int64_t micro_batch : {64, 24}) {
    Replayed training;
    training.train_data = std::make_shared<TinyDataset>(64 * 4 + 60);
    training.train_data->options.workers = 0;
    training.options.batch_size = 64;
    training.options.epochs = 1;
    training.policy.micro_batch = micro_batch;
    const WideStep step;
    const auto network = step.wide.build({}, 1);

    PlanningContext planning;
    planning.facts.device = "cuda:0";
    planning.asked.budget = {"a test", std::int64_t{14} << 30};
    const stages::DatasetDescription data = training.train_data->describe();
    const runner::MemoryPlan plan = stages::plan_training({.step = step,
                                                           .model = step.wide,
                                                           .data = data,
                                                           .network_data = data,
                                                           .loader = training.train_data->loader(),
                                                           .options = training.options,
                                                           .policy = training.policy},
                                                          planning)
                                        .plan;
    const auto graph = std::ranges::find(plan.terms, "cuda_graph", &runner::NamedBytes::name);
    ASSERT_NE(graph, plan.terms.end());
    EXPECT_EQ(plan.step.at("cuda_graphs"), true);

    stages::empty_cache(card);
    const std::int64_t before = stages::MemoryMeter(card).use().reserved;
    card_allocator().resetPeakStats(0);
    stages::train(step, *network, {training.train_data, nullptr}, training.options, training.policy,
                  training.context);
    EXPECT_EQ(training.recorded(), 1);
    const std::int64_t counted = card_allocator().getDeviceStats(0).reserved_bytes[0].peak - before,
                       context = stages::gpu_context("").in_all,
                       workspaces = 2 * (std::int64_t{65}
                                         << 20);  // which the stand-in's kernels do not need
    EXPECT_LE(counted, plan.needed - context) << micro_batch;
    EXPECT_GE(static_cast<double>(counted),
              0.7 * static_cast<double>(plan.needed - context - workspaces))
        << micro_batch;
  }
}

TEST(StepGraphs, PlanIsChosenWithTheMemoryOfGraphs) {
  stages::TowerPlanning tower(3, {8192, 64}, 128);
  tower.context.facts.device = "cuda:0";
  tower.options.batch_size = 2048;
  tower.policy.cuda_graphs = true;
  tower.context.asked.budget = {"a test", std::int64_t{64} << 30};
  const std::int64_t needed = tower.plan().needed;
  tower.policy.allow = stages::Allow::kExact;
  tower.policy.checkpointing_is_open = tower.policy.in_backward_is_open =
      tower.policy.two_pass_is_open = tower.policy.offload_is_open = true;
  for (const std::int64_t tenths : {9, 7}) {
    tower.context.asked.budget = {"a test", needed * tenths / 10};
    const stages::PlannedStep planned = tower.planned();
    EXPECT_LE(planned.plan.needed, needed * tenths / 10);
    EXPECT_EQ(planned.plan.step.at("cuda_graphs"), true);
    EXPECT_TRUE(planned.policy.micro_batch || planned.policy.activation_checkpointing.blocks ||
                !planned.policy.activation_checkpointing.modules.empty());
    EXPECT_FALSE(planned.policy.optimizer_in_backward || planned.policy.two_pass);
  }
}

}  // namespace
}  // namespace stand_in
