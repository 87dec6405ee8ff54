#include <algorithm>
#include <array>

#include <gmock/gmock.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "stages/plan/choose_policy.h"
#include "stages/ranks/messages.h"
#include "stages/ranks/state_shard.h"
#include "stages/weights/weights.h"
#include "tests/support/tower_planning.h"

// How a plan chooses where and when the optimizer works.

namespace stages {
namespace {

using testing::HasSubstr;

/// A training run dominated by weights, gradients and optimizer state, even with a GPU's large
/// segments. Only the modes of the optimizer are open.
struct OpenOptimizer : TowerPlanning {
  explicit OpenOptimizer(bool on_gpu) : TowerPlanning(4, {40, 32}, 512) {
    options.batch_size = 2;
    policy.allow = Allow::kBit;
    policy.activation_checkpointing = {.blocks = true};
    policy.offload_is_open = policy.in_backward_is_open = true;
    if (!on_gpu) return;
    context.facts.device = "cuda:0";
    context.asked.device_model = "NVIDIA L4";
  }
  PlannedStep under(std::int64_t budget) {
    context.asked.budget = {"a test", budget};
    return planned();
  }
  std::int64_t needed(bool offloads, bool in_backward) {
    TowerPlanning written = *this;
    written.policy.offload_is_open = written.policy.in_backward_is_open = false;
    written.policy.offloads_optimizer = offloads;
    written.policy.optimizer_in_backward = in_backward;
    return written.plan().needed;
  }
};

TEST(ChoosePolicy, OptimizerModeFollowsTheBudget) {
  OpenOptimizer planning(/*on_gpu=*/true);
  const std::int64_t whole = planning.needed(false, false),
                     in_backward = planning.needed(false, true),
                     offloaded = planning.needed(true, false), both = planning.needed(true, true);
  ASSERT_LT(in_backward, whole);
  ASSERT_LT(both, std::min(in_backward, offloaded));
  const auto chosen = [&](std::int64_t budget) {
    const PlannedStep planned = planning.under(budget);
    EXPECT_TRUE(planned.plan.fits());
    EXPECT_FALSE(planned.policy.offload_is_open || planned.policy.in_backward_is_open);
    EXPECT_EQ(planned.plan.choice->exactness, "bit");
    return std::pair(planned.policy.offloads_optimizer, planned.policy.optimizer_in_backward);
  };
  EXPECT_EQ(chosen(whole), std::pair(false, false));
  EXPECT_EQ(chosen(in_backward), std::pair(false, true)) << "nothing has to be copied";
  EXPECT_EQ(chosen(both), std::pair(true, true));
  EXPECT_THAT(
      runner::choice_text(planning.under(in_backward).plan),
      testing::StartsWith("chosen: the whole batch at once, the optimizer in the backward pass: "));
  EXPECT_THAT(
      planning.under(both).plan.choice->overrides,
      testing::ElementsAre("memory.offload=optimizer", "memory.optimizer_in_backward=true"));
}

TEST(ChoosePolicy, OptimizerInBackwardIsAvoidedIfNotAllowed) {
  OpenOptimizer planning(/*on_gpu=*/true);
  const std::int64_t tight = planning.needed(false, true);
  planning.policy.recovery.max_retries = 2;
  EXPECT_FALSE(planning.under(tight).policy.optimizer_in_backward)
      << "a failed step could not be retried";
  EXPECT_TRUE(planning.under(tight).policy.offloads_optimizer);
  planning.policy.recovery.max_retries = 0;
  planning.options.gradient_clip_norm = 1;
  EXPECT_FALSE(planning.under(tight).policy.optimizer_in_backward);
  planning.options.gradient_clip_norm.reset();
  planning.policy.allow = Allow::kNothing;
  EXPECT_FALSE(planning.under(tight).policy.optimizer_in_backward);
}

TEST(ChoosePolicy, StateIsShardedIfTheBudgetRequiresIt) {
  OpenOptimizer planning(/*on_gpu=*/false);
  planning.policy.offload_is_open = planning.policy.in_backward_is_open = false;
  planning.context.facts.ranks.size = 2;
  const std::int64_t whole = planning.plan().needed;
  planning.policy.sharding = Sharding::kOptimizer;
  const std::int64_t divided = planning.plan().needed;
  ASSERT_LT(divided, whole);
  planning.policy.sharding = Sharding::kNone;
  planning.policy.shard_is_open = true;
  EXPECT_FALSE(planning.under(whole).policy.sharding != Sharding::kNone)
      << "nothing has to be sent";
  const PlannedStep chosen = planning.under(divided);
  EXPECT_TRUE(chosen.plan.fits());
  EXPECT_EQ(chosen.policy.sharding, Sharding::kOptimizer);
  EXPECT_FALSE(chosen.policy.shard_is_open);
  EXPECT_EQ(chosen.plan.choice->exactness, "bit");
  EXPECT_THAT(chosen.plan.choice->overrides, testing::ElementsAre("memory.shard=optimizer"));
  EXPECT_THAT(chosen.plan.choice->summary,
              HasSubstr("the optimizer state sharded across the ranks"));

  planning.context.earlier_step_again = chosen.plan.step;
  EXPECT_EQ(planning.under(2 * whole).policy.sharding, Sharding::kOptimizer)
      << "as when the run started";
  planning.context.facts.ranks.size = 1;
  EXPECT_EQ(planning.under(divided).policy.sharding, Sharding::kNone) << "there is no other rank";
}

TEST(ChoosePolicy, GradientsAreShardedIfNeededAndRoundingMayDiffer) {
  OpenOptimizer planning(/*on_gpu=*/false);
  planning.policy.offload_is_open = planning.policy.in_backward_is_open = false;
  planning.policy.min_micro_batch = planning.options.batch_size;
  planning.context.facts.ranks.size = 2;
  const auto needed = [&](Sharding sharding) {
    planning.policy.sharding = sharding;
    return planning.plan().needed;
  };
  const std::int64_t gradients = needed(Sharding::kGradients);
  ASSERT_LT(gradients, needed(Sharding::kOptimizer));
  planning.policy.sharding = Sharding::kNone;
  planning.policy.shard_is_open = true;
  planning.policy.allow = Allow::kBit;
  const PlannedStep bit = planning.under(gradients);
  EXPECT_FALSE(bit.plan.fits());
  EXPECT_NE(bit.policy.sharding, Sharding::kGradients);
  planning.policy.allow = Allow::kExact;
  const PlannedStep exact = planning.under(gradients);
  EXPECT_TRUE(exact.plan.fits());
  EXPECT_EQ(exact.plan.choice->exactness, "exact");
  EXPECT_THAT(exact.plan.choice->overrides, testing::ElementsAre("memory.shard=gradients"));
  planning.context.earlier_step_again = exact.plan.step;
  EXPECT_EQ(planning.under(2 * gradients).policy.sharding, Sharding::kGradients)
      << "as when the run started";
  planning.context.earlier_step_again["shard"] = "weights";
  EXPECT_EQ(planning.under(1 << 30).policy.sharding, Sharding::kNone) << "not known";
}

TEST(ChoosePolicy, ParametersAreShardedIfNothingElseFits) {
  OpenOptimizer planning(/*on_gpu=*/false);
  planning.policy.offload_is_open = planning.policy.in_backward_is_open = false;
  planning.policy.min_micro_batch = planning.options.batch_size;
  planning.policy.allow = Allow::kExact;
  planning.policy.activation_checkpointing = {};
  planning.policy.checkpointing_is_open = true;
  planning.context.facts.ranks.size = 2;
  const auto needed = [&](Sharding sharding) {
    OpenOptimizer written = planning;
    written.policy.sharding = sharding;
    written.policy.checkpointing_is_open = false;
    written.policy.activation_checkpointing = {.blocks = true};
    return written.plan().needed;
  };
  const std::int64_t gradients = needed(Sharding::kGradients),
                     parameters = needed(Sharding::kParameters);
  ASSERT_LT(parameters, gradients);
  planning.policy.shard_is_open = true;
  EXPECT_EQ(planning.under(gradients).policy.sharding, Sharding::kGradients);
  const PlannedStep chosen = planning.under(parameters);
  EXPECT_TRUE(chosen.plan.fits());
  EXPECT_EQ(chosen.policy.sharding, Sharding::kParameters);
  EXPECT_TRUE(chosen.policy.activation_checkpointing.blocks);
  EXPECT_EQ(chosen.plan.choice->exactness, "exact");
  EXPECT_THAT(chosen.plan.choice->overrides,
              testing::UnorderedElementsAre("memory.activation_checkpointing=block",
                                            "memory.shard=parameters"));
  EXPECT_THAT(chosen.plan.choice->summary,
              HasSubstr("parameters, gradients and the optimizer state sharded across the ranks"));
  planning.context.earlier_step_again = chosen.plan.step;
  EXPECT_EQ(planning.under(2 * gradients).policy.sharding, Sharding::kParameters)
      << "as when the run started";

  planning.context.earlier_step_again = {};
  planning.policy.shard_is_open = false;
  planning.policy.sharding = Sharding::kParameters;
  EXPECT_TRUE(planning.under(1 << 30).policy.activation_checkpointing.blocks)
      << "a graph must not keep sharded parameters";
}

// A rank keeps the parameters that it owns, one whole block, and all parameters outside blocks.
TEST(ChoosePolicy, ShardedParametersArePlannedWithOneGatheredBlock) {
  OpenOptimizer planning(/*on_gpu=*/false);
  planning.policy.offload_is_open = planning.policy.in_backward_is_open = false;
  planning.options.optimizer = SgdOptions{.learning_rate = 0.1};  // no state
  const auto live = [&](int ranks, Sharding sharding) {
    planning.context.facts.ranks.size = ranks;
    planning.policy.sharding = sharding;
    return planning.plan().live;
  };
  std::int64_t in_blocks = 0, in_one = 0;
  for (const auto& item : planning.model.outline(planning.data.describe())->named_parameters()) {
    const auto bytes = static_cast<std::int64_t>(item.value().nbytes());
    if (item.key().find(".layers.") != std::string::npos) in_blocks += bytes;
    if (item.key().find(".layers.0.") != std::string::npos) in_one += bytes;
  }
  ASSERT_GT(in_one, 0);
  for (const int ranks : {2, 4}) {
    const std::int64_t saved =
        live(ranks, Sharding::kGradients) - live(ranks, Sharding::kParameters);
    const std::int64_t elsewhere = in_blocks - in_blocks / ranks;
    EXPECT_NEAR(static_cast<double>(saved), static_cast<double>(elsewhere - in_one),
                static_cast<double>(in_one) / 4)
        << ranks;
  }
}

TEST(ChoosePolicy, ShardedStateIsPlannedForTheLargestShard) {
  OpenOptimizer planning(/*on_gpu=*/false);
  planning.policy.offload_is_open = planning.policy.in_backward_is_open = false;
  planning.options.batch_size = 16;
  const auto live = [&](int ranks, Sharding sharding) {
    planning.context.facts.ranks.size = ranks;
    planning.policy.sharding = sharding;
    return planning.plan().live;
  };
  const auto network = planning.model.outline(planning.data.describe());
  std::vector<std::int64_t> bytes;
  for (const auto& [name, parameter] : trained_parameters(*network))
    bytes.push_back(static_cast<std::int64_t>(parameter.nbytes()));
  for (const int ranks : {2, 4, 8}) {
    std::int64_t elsewhere = 0;
    const std::vector<int> owners = owners_of(bytes, ranks);
    for (std::size_t i = 0; i < bytes.size(); ++i) elsewhere += owners[i] == 0 ? 0 : bytes[i];
    // Adam has two moments per parameter; the step counts and the buffers for messages are small.
    const std::int64_t saved = live(ranks, Sharding::kNone) - live(ranks, Sharding::kOptimizer);
    EXPECT_LE(saved, 2 * elsewhere + (1 << 20)) << ranks;
    EXPECT_GE(saved, 2 * elsewhere - kMessageBytes - (1 << 20)) << ranks;
  }
}

TEST(ChoosePolicy, NothingIsOffloadedOnACpu) {
  OpenOptimizer planning(/*on_gpu=*/false);
  const PlannedStep planned = planning.under(planning.needed(false, true));
  EXPECT_TRUE(planned.plan.fits());
  EXPECT_FALSE(planned.policy.offloads_optimizer);
  EXPECT_TRUE(planned.policy.optimizer_in_backward);
}

TEST(ChoosePolicy, OptimizerModesAreReplayed) {
  OpenOptimizer planning(/*on_gpu=*/true);
  const std::int64_t whole = planning.needed(false, false);
  const PlannedStep first = planning.under(planning.needed(true, true));
  planning.context.earlier_step_again = first.plan.step;
  const PlannedStep second = planning.under(2 * whole);
  EXPECT_TRUE(second.plan.choice->is_replayed);
  EXPECT_TRUE(second.policy.offloads_optimizer && second.policy.optimizer_in_backward);
  planning.policy.in_backward_is_open = false;
  EXPECT_FALSE(planning.under(2 * whole).policy.optimizer_in_backward) << "it is written now";
}
}  // namespace
}  // namespace stages
