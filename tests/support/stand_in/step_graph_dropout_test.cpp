// Training runs with dropout that replay their micro-batches from a CUDA graph.

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include "runner/shared/stage/run_context.h"
#include "stages/random/dropout.h"
#include "tests/support/stand_in/card_allocator.h"
#include "tests/support/stand_in/replayed_training.h"
#include "tests/support/tower_planning.h"

namespace stand_in {
namespace {

using stages::Precision;

/// Drops elements, and skips a layer for some samples.
struct DroppingNetwork : torch::nn::Module {
  DroppingNetwork()
      : first(register_module("first", std::make_shared<TinyLinear>(2, 8, at::kCPU))),
        second(register_module("second", std::make_shared<TinyLinear>(8, 8, at::kCPU))),
        last(register_module("last", std::make_shared<TinyLinear>(8, 3, at::kCPU))),
        dropout(register_module("dropout", std::make_shared<stages::Dropout>(0.3))),
        path(register_module(
            "path", std::make_shared<stages::Dropout>(0.4, stages::DropoutUnit::kSample))) {}
  at::Tensor forward(const at::Tensor& x) const {
    const at::Tensor hidden = dropout->forward(first->forward(x).tanh());
    return last->forward(hidden + path->forward(second->forward(hidden).tanh()));
  }
  const std::shared_ptr<TinyLinear> first, second, last;
  const std::shared_ptr<stages::Dropout> dropout, path;
};

/// TinyStep on a DroppingNetwork. May run a second input with different masks, and have a block
/// refused after the second step, before a third is recorded.
struct DroppingStep final : TinyStep {
  stages::NamedTensors encode(torch::nn::Module& network,
                              const stages::Batch& part) const override {
    const auto& dropping = dynamic_cast<DroppingNetwork&>(network);
    at::Tensor logits = dropping.forward(part["image"]);
    if (has_two_inputs) {
      const stages::ScopedInput view(network, "view");
      logits = logits + dropping.forward(part["image"]);
    }
    return {{"logits", logits}};
  }
  void constrain(torch::nn::Module&) const override {
    if (++steps == 2 && refused_block > 0) card_allocator().refuse(refused_block);
  }
  bool has_two_inputs = false;
  std::int64_t refused_block = 0;
  mutable int steps = 0;
};

/// A training run of a DroppingNetwork.
struct Dropping : Replayed {
  explicit Dropping(bool replays) : Replayed(replays) {
    torch::manual_seed(7);
    network = std::make_shared<DroppingNetwork>();
  }
  void run() {
    stages::train(dropping, *network, {train_data, validation}, options, policy, context);
  }
  DroppingStep dropping;
};

using Variant = std::pair<std::string, std::function<void(Dropping&)>>;

const std::vector<Variant>& variants() {
  static const std::vector<Variant> all = {
      {"plain", [](Dropping&) {}},
      {"in parts", [](Dropping& one) { one.policy.micro_batch = 3; }},
      {"bf16", [](Dropping& one) { one.policy.precision.base = Precision::kBf16; }},
      {"fp16 in parts",
       [](Dropping& one) {
         one.policy.precision.base = Precision::kFp16;
         one.policy.micro_batch = 4;
       }},
      {"two inputs", [](Dropping& one) { one.dropping.has_two_inputs = true; }},
  };
  return all;
}

TEST(StepGraphsWithDropout, DoNotChangeAnyBits) {
  for (const auto& [name, change] : variants()) {
    Dropping replayed(true), computed(false);
    for (Dropping* one : {&replayed, &computed}) {
      change(*one);
      one->run();
    }
    EXPECT_TRUE(replayed.flat_weights().equal(computed.flat_weights())) << name;
    EXPECT_EQ(replayed.context.values("train/loss"), computed.context.values("train/loss")) << name;
    EXPECT_EQ(replayed.recorded(), 1) << name;
  }
}

TEST(StepGraphsWithDropout, StepsHaveFewerLaunchesAndNoWait) {
  for (const bool is_cut : {false, true}) {
    const auto run = [&](Replayed& training) {
      torch::manual_seed(7);
      if (is_cut) training.policy.micro_batch = 4;
      const auto network = std::make_shared<DroppingNetwork>();
      stages::train(DroppingStep(), *network, {training.train_data, nullptr}, training.options,
                    training.policy, training.context);
    };
    const Counts replayed = of_eight_steps(true, run), computed = of_eight_steps(false, run);
    EXPECT_LT(replayed.launches, computed.launches / 2) << is_cut;
    EXPECT_EQ(replayed.waits, 0) << is_cut;
    EXPECT_EQ(replayed.copies_to_gpu, computed.copies_to_gpu) << is_cut;
  }
}

TEST(StepGraphsWithDropout, TrainingContinuesToTheSameBits) {
  Dropping whole(false);
  whole.run();
  for (const std::int64_t step : {2, 5, 9}) {
    Dropping stopped(true), resumed(true);
    stopped.context.on_progress = [&stopped, step](const runner::Progress& progress) {
      if (progress.phase == "train" && progress.step == step) stopped.context.is_canceled = true;
    };
    EXPECT_THROW(stopped.run(), runner::Canceled);
    resumed.context.facts.resuming = true;
    std::filesystem::copy(stopped.context.node().folder, resumed.context.node().folder,
                          std::filesystem::copy_options::recursive);
    resumed.run();
    EXPECT_EQ(resumed.recorded(), 1) << step;
    EXPECT_TRUE(resumed.flat_weights().equal(whole.flat_weights())) << step;
  }
}

TEST(StepGraphsWithDropout, OutOfMemoryRepeatsTheStep) {
  Dropping whole(false);
  whole.run();
  for (const std::int64_t block : {1, 6, 12, 20, 30}) {
    Dropping refused(true);
    refused.policy.recovery.max_retries = 1;
    refused.dropping.refused_block = block;
    refused.run();
    EXPECT_EQ(refused.context.recoveries.size(), 1U) << block;
    EXPECT_TRUE(refused.flat_weights().equal(whole.flat_weights())) << block;
    EXPECT_EQ(refused.recorded(), 1) << block;
  }
}

TEST(StepGraphsWithDropout, DoNotChangeAnyBitsOfATowerWithRecomputedBlocks) {
  for (const bool recomputes : {false, true}) {
    std::vector<at::Tensor> weights;
    for (const bool replays : {true, false}) {
      stages::TowerPlanning tower(2, {20, 16}, 16);
      stages::ClipVisionConfig config = stages::planned_tower(2, 16);
      config.tower.drop_path = 0.4;
      config.tower.block.attention_dropout = 0.2;
      config.dropout = 0.3;
      const stages::ClipVision model(config);
      tower.policy.cuda_graphs = replays;
      tower.policy.micro_batch = 4;
      tower.policy.activation_checkpointing.blocks = recomputes;
      tower.options.batch_size = 8;
      tower.options.epochs = 3;
      RecordingContext context;
      context.facts.device = "cuda:0";
      const auto network = model.build(tower.data.describe(), 1);
      stages::train(stages::ClassifyingStep(model), *network,
                    {std::make_shared<NoiseImages>(tower.data), nullptr}, tower.options,
                    tower.policy, context);
      std::vector<at::Tensor> flat;
      for (const auto& [name, weight] : stages::weights(*network))
        flat.push_back(weight.detach().flatten().cpu());
      weights.push_back(torch::cat(flat));
    }
    EXPECT_TRUE(weights[0].equal(weights[1])) << recomputes;
  }
}

}  // namespace
}  // namespace stand_in
