#include <functional>
#include <new>
#include <utility>

#include <gmock/gmock.h>
#include <torch/nn/module.h>

#include "runner/shared/stage/stage.h"
#include "stages/artifact/model.h"
#include "stages/machine/counting_allocator.h"
#include "stages/plan/memory_budget.h"
#include "tests/support/refused.h"
#include "tests/support/supervised_run.h"
#include "tests/support/tower_planning.h"

// Supervised training that runs out of memory.

namespace stages {
namespace {

/// Wraps a model and runs out of memory if `fails` returns true.
class GreedyModel final : public Model {
 public:
  GreedyModel(std::shared_ptr<const Model> inner, std::function<bool(const at::Tensor&)> fails)
      : fails(std::move(fails)), inner_(std::move(inner)) {}
  std::shared_ptr<torch::nn::Module> build(const DatasetDescription& data,
                                           std::uint64_t seed) const override {
    return inner_->build(data, seed);
  }
  std::shared_ptr<torch::nn::Module> outline(const DatasetDescription& data) const override {
    return inner_->outline(data);
  }
  NamedTensors forward(torch::nn::Module& network, const NamedTensors& inputs) const override {
    if (fails(inputs.at("image"))) throw std::bad_alloc();
    return inner_->forward(network, inputs);
  }
  bool mixes_samples() const override { return false; }

  std::function<bool(const at::Tensor&)> fails;

 private:
  const std::shared_ptr<const Model> inner_;
};

TEST(Supervised, OutOfMemoryRepeatsThePlanSearch) {
  const auto with_failures = [](int failures) {
    SupervisedRun supervised;
    supervised.greedy = std::make_shared<GreedyModel>(
        std::make_shared<ClipVision>(planned_tower(4)),
        [failures](const at::Tensor& image) mutable {  // except in dry runs
          return !image.is_meta() && failures-- > 0;
        });
    supervised.images = std::make_shared<NoiseImages>(48, 32);
    supervised.validation = nullptr;
    supervised.policy->pointer = "/memory";
    supervised.policy->allow = Allow::kExact;
    supervised.policy->checkpointing_is_open = true;
    supervised.policy->recovery.max_retries = 3;
    return supervised;
  };
  constexpr const char* kOptions =
      R"({"epochs": 1, "batch_size": 16, "optimizer": {"learning_rate": 0.01}})";
  SupervisedRun failing = with_failures(2);
  const runner::MemoryPlan whole = failing.plan(kOptions, std::int64_t{1} << 40);
  ASSERT_EQ(runner::choice_text(whole), "chosen: the whole batch at once");
  const runner::MemoryPlan less = failing.plan(
      kOptions, static_cast<std::int64_t>(kShrunk * static_cast<double>(whole.needed)));
  // A recovery without a search tries half the batch, or all blocks recomputed.
  ASSERT_EQ(less.step.at("micro_batch"), 0);
  const std::size_t recomputed = less.step.at("activation_checkpointing").size();
  ASSERT_TRUE(less.step.at("activation_checkpointing").is_array() && recomputed > 0);

  failing.run_planned(kOptions);
  ASSERT_EQ(failing.context.recoveries.size(), 2);
  EXPECT_EQ(failing.context.recoveries[0].to, "the whole batch of 16");
  EXPECT_EQ(failing.context.recoveries[1].to,
            "the whole batch of 16, " + std::to_string(recomputed) +
                (recomputed == 1 ? " module recomputed" : " modules recomputed"));
  SupervisedRun undisturbed = with_failures(0);
  undisturbed.run_planned(kOptions);
  EXPECT_EQ(failing.context.values("train/loss"), undisturbed.context.values("train/loss"));
}

TEST(Supervised, LegacyModeHalvesTheBatchSizeAndRestarts) {
  SupervisedRun supervised;
  supervised.validation = nullptr;
  std::int64_t fitting = 4;
  const auto greedy = std::make_shared<GreedyModel>(
      std::make_shared<TinyModel>(),
      [&](const at::Tensor& image) { return image.size(0) > fitting; });
  supervised.greedy = greedy;
  supervised.policy->recovery = {.max_retries = 3, .halves_batch = true};
  supervised.run(
      R"({"epochs": 1, "batch_size": 16, "log_every": 1, "optimizer": {"learning_rate": 0.05}})");
  EXPECT_THAT(supervised.context.said.front(),
              testing::HasSubstr("the batch itself is halved and training starts over from "
                                 "the current weights, which changes the training"));
  EXPECT_THAT(
      supervised.context.said,
      testing::IsSupersetOf(
          {"out of memory: batch_size 8 instead of 16, restarting at the first epoch, retry 1",
           "out of memory: batch_size 4 instead of 8, restarting at the first epoch, retry 2"}));
  EXPECT_EQ(supervised.context.steps("train/loss").back(), 8) << "30 samples, 4 at a time";
  EXPECT_EQ(supervised.context.resumed_at, 0) << "metrics of the failed attempts are dropped";
  ASSERT_EQ(supervised.context.recoveries.size(), 2);
  EXPECT_EQ(supervised.context.recoveries[1].from, "batch_size 8");
  EXPECT_EQ(supervised.context.recoveries[1].to, "batch_size 4");

  SupervisedRun gives_up;
  fitting = 2;
  gives_up.validation = nullptr;
  gives_up.greedy = greedy;
  gives_up.policy->recovery = {.max_retries = 3, .halves_batch = true};
  EXPECT_REFUSED(gives_up.run(R"({"batch_size": 16})"), kOutOfMemory, "", "step 1");
  EXPECT_EQ(gives_up.context.recoveries.size(), 2) << "one retry fewer than max_retries";
}

}  // namespace
}  // namespace stages
