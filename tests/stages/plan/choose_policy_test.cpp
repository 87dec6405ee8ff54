#include "stages/plan/choose_policy.h"

#include <algorithm>
#include <set>

#include <gmock/gmock.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/shared/stage/stage.h"
#include "stages/plan/step_profile.h"
#include "tests/support/counted_as_planned.h"
#include "tests/support/refused.h"
#include "tests/support/scoped_threads.h"
#include "tests/support/tower_planning.h"

namespace stages {
namespace {

using testing::HasSubstr;

/// A training run with a policy that leaves everything open.
struct OpenPlanning : TowerPlanning {
  explicit OpenPlanning(std::int64_t layers = 3) : TowerPlanning(layers) {
    policy.allow = Allow::kExact;
    policy.checkpointing_is_open = policy.two_pass_is_open = true;
  }
  PlannedStep under(std::int64_t budget) {
    context.asked.budget = {"a test", budget};
    return planned();
  }
  /// Plans another step with this budget.
  PlannedStep under(std::int64_t budget, const TrainingStep& other) {
    context.asked.budget = {"a test", budget};
    const DatasetDescription description = data.describe();
    return plan_training({.step = other,
                          .model = model,
                          .data = description,
                          .network_data = description,
                          .loader = data.loader(),
                          .options = options,
                          .policy = policy},
                         context);
  }
  /// Returns how many bytes the whole batch needs at once.
  std::int64_t whole() { return under(std::int64_t{1} << 40).plan.needed; }
};

double seconds_of(const runner::MemoryPlan& plan) {
  const Backend backend{.device = at::kCPU, .threads = at::get_num_threads()};
  return predicted_seconds(
      {plan.flops, plan.traffic, static_cast<double>(plan.operations), plan.moved}, backend);
}

TEST(ChoosePolicy, WholeBatchIsChosenIfItFits) {
  OpenPlanning planning;
  const PlannedStep planned = planning.under(std::int64_t{1} << 40);
  EXPECT_EQ(planned.policy.micro_batch, std::nullopt);
  EXPECT_FALSE(planned.policy.activation_checkpointing.recomputes());
  ASSERT_TRUE(planned.plan.choice);
  EXPECT_EQ(runner::choice_text(planned.plan), "chosen: the whole batch at once");
  EXPECT_FALSE(planned.policy.leaves_a_choice() && planned.policy.two_pass_is_open);
}

TEST(ChoosePolicy, WholeBatchPlanListsSameAlternativesAsWrittenPolicy) {
  OpenPlanning open;
  TowerPlanning written;
  open.context.asked.wants_alternatives = written.context.asked.wants_alternatives = true;
  open.policy.two_pass_is_open = false;
  const auto listed = [](const runner::MemoryPlan& plan) {
    std::vector<std::string> ways;
    for (const runner::PlanAlternative& one : plan.alternatives)
      ways.push_back(runner::override_text(one.overrides));
    return ways;
  };
  EXPECT_EQ(listed(open.plan()), listed(written.plan()));
  EXPECT_GT(open.plan().alternatives.size(), 4U);
}

TEST(ChoosePolicy, ChoosesOnlyWhatIsAllowed) {
  OpenPlanning planning;
  const std::int64_t whole = planning.whole();
  planning.policy.allow = Allow::kBit;
  const PlannedStep bit = planning.under(whole - 1);
  EXPECT_EQ(bit.policy.micro_batch, std::nullopt);
  EXPECT_EQ(bit.policy.activation_checkpointing.modules.size(), 1U) << "one block is enough";
  EXPECT_EQ(bit.plan.choice->exactness, "bit");
  EXPECT_GT(bit.plan.choice->relative_time, 1);
  EXPECT_EQ(planning.under(1).policy.micro_batch, std::nullopt)
      << "even if there is no other choice";
  planning.policy.allow = Allow::kExact;
  planning.policy.checkpointing_is_open = false;
  const PlannedStep cut = planning.under(whole - 1);
  EXPECT_GT(cut.policy.micro_batch.value_or(0), 0);
  EXPECT_FALSE(cut.policy.activation_checkpointing.recomputes());
  EXPECT_EQ(cut.plan.choice->exactness, "exact");
}

TEST(ChoosePolicy, MicroBatchOfTheRecipeIsKeptUnlessItIsOnlyAMaximum) {
  OpenPlanning planning;
  planning.policy.micro_batch = 8;
  EXPECT_EQ(planning.under(1000).policy.micro_batch, 8);
  planning.policy.micro_batch_is_most = true;
  EXPECT_LT(planning.under(1000).policy.micro_batch.value_or(16), 8);
}

TEST(ChoosePolicy, BatchIsNeverSplitIfLayersMixSamples) {
  OpenPlanning planning;
  planning.step.mixes = true;
  const PlannedStep planned = planning.under(planning.whole() / 2);
  EXPECT_EQ(planned.policy.micro_batch, std::nullopt);
  EXPECT_TRUE(planned.policy.activation_checkpointing.recomputes());
}

TEST(ChoosePolicy, TwoPassesOfTheRecipeAreKeptWithItsMicroBatch) {
  OpenPlanning planning;
  ClassifyingStep coupled(planning.model, Coupling::kWholeBatch);
  planning.policy.micro_batch = 4;
  planning.policy.two_pass = true;
  planning.policy.two_pass_is_open = false;
  const PlannedStep planned = planning.under(std::int64_t{1} << 40, coupled);
  EXPECT_TRUE(planned.policy.two_pass);
  EXPECT_EQ(planned.policy.micro_batch, 4);
}

TEST(ChoosePolicy, WholeBatchLossIsOnlySplitInTwoPasses) {
  OpenPlanning planning;
  ClassifyingStep coupled(planning.model, Coupling::kWholeBatch);
  planning.policy.checkpointing_is_open = false;
  const std::int64_t whole = planning.under(std::int64_t{1} << 40, coupled).plan.needed;
  const PlannedStep planned = planning.under(whole - 1, coupled);
  EXPECT_TRUE(planned.policy.two_pass);
  EXPECT_GT(planned.policy.micro_batch.value_or(0), 0);
  EXPECT_THAT(runner::choice_text(planned.plan), HasSubstr("two passes"));
  EXPECT_TRUE(planned.plan.fits());
}

TEST(ChoosePolicy, ConflictThatTwoPassesDoNotResolveIsReported) {
  OpenPlanning planning;
  planning.step.mixes = true;  // so that two passes are impossible too
  planning.policy.cuda_graphs = true;
  EXPECT_REFUSED(planning.whole(), kOptionConflict, "/memory/cuda_graphs", "on the CPU");
}

TEST(ChoosePolicy, PerSampleLossNeedsNoSecondPass) {
  OpenPlanning planning;
  planning.policy.checkpointing_is_open = false;
  EXPECT_FALSE(planning.under(planning.whole() / 2).policy.two_pass);
}

/// The parameter is the number of threads; their kernels' memory changes the fragmentation.
class ChoosePolicyOnThreads : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(ChoosePolicy, ChoosePolicyOnThreads, testing::Values(1, 2, 8));

/// Compares with all subsets of the blocks and all micro-batches: the choice fits if any does, is
/// hardly slower than the fastest, and splits the batch no further than needed.
TEST_P(ChoosePolicyOnThreads, IsAsGoodAsAnExhaustiveSearch) {
  const ScopedThreads threads(GetParam());
  constexpr std::int64_t kLayers = 3;
  OpenPlanning planning(kLayers);
  const std::int64_t whole = planning.whole();
  std::vector<runner::MemoryPlan> all;
  std::vector<MemoryPolicy> policies;
  for (const std::int64_t size : {0, 8, 6, 4, 3, 2, 1}) {
    for (int subset = 0; subset < (1 << kLayers); ++subset) {
      TowerPlanning one(kLayers);
      if (size > 0) one.policy.micro_batch = size;
      for (int layer = 0; layer < kLayers; ++layer) {
        if ((subset >> layer) % 2 == 1)
          one.policy.activation_checkpointing.modules.push_back(
              "model.vision_model.encoder.layers." + std::to_string(layer));
      }
      all.push_back(one.plan());
      policies.push_back(one.policy);
    }
  }
  double sum = 0;
  int count = 0;
  const std::int64_t least = std::ranges::min(all, {}, &runner::MemoryPlan::needed).needed;
  for (std::int64_t budget = least; budget <= whole; budget += (whole - least) / 23) {
    double quickest = 1e9;
    for (const runner::MemoryPlan& plan : all) {
      if (plan.needed <= budget) quickest = std::min(quickest, seconds_of(plan));
    }
    const PlannedStep planned = planning.under(budget);
    ASSERT_TRUE(planned.plan.fits()) << budget;
    const double ratio = seconds_of(planned.plan) / quickest;
    EXPECT_LE(ratio, 1.2) << budget << " " << runner::choice_text(planned.plan);
    sum += ratio;
    ++count;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto names = [](const ActivationCheckpointing& one) {
        return one.blocks ? std::size_t{kLayers} : one.modules.size();
      };
      const bool is_same = names(policies[i].activation_checkpointing) ==
                           names(planned.policy.activation_checkpointing);
      if (!is_same || all[i].needed > budget) continue;
      EXPECT_LE(policies[i].micro_batch.value_or(16), planned.policy.micro_batch.value_or(16))
          << budget;
    }
  }
  EXPECT_LE(sum / count, 1.05);
}

TEST(ChoosePolicy, ChosenPlanMatchesTraining) {
  OpenPlanning planning;
  const std::int64_t whole = planning.whole(), least = planning.under(1000).plan.needed;
  for (const double share : {0.9, 0.5, 0.1}) {
    const PlannedStep planned = planning.under(
        least + static_cast<std::int64_t>(share * static_cast<double>(whole - least)));
    ASSERT_TRUE(planned.plan.fits());
    expect_counted_as_planned(planning.measured(planned.policy), planned.plan, 1 / 1.35,
                              std::to_string(share));
  }
}

TEST(ChoosePolicy, PlansTheSmallestPolicyIfNothingFits) {
  OpenPlanning planning;
  const PlannedStep planned = planning.under(1000);
  EXPECT_FALSE(planned.plan.fits());
  for (const runner::PlanAlternative& other : planned.plan.alternatives)
    EXPECT_TRUE(other.needed >= planned.plan.needed || other.exactness == "declared");
}

TEST(ChoosePolicy, SuggestsATrainingChangeIfNothingFits) {
  OpenPlanning planning;
  const std::int64_t least = planning.under(1000).plan.needed;
  const PlannedStep planned = planning.under(least - 1);
  EXPECT_FALSE(planned.plan.fits());
  const auto half =
      std::ranges::find(planned.plan.alternatives, "declared", &runner::PlanAlternative::exactness);
  ASSERT_NE(half, planned.plan.alternatives.end());
  EXPECT_THAT(half->overrides, testing::Contains("memory.precision=bf16"));
}

TEST(ChoosePolicy, MinimumMicroBatchIsRespected) {
  OpenPlanning planning;
  planning.policy.checkpointing_is_open = false;
  planning.policy.min_micro_batch = 5;
  const PlannedStep planned = planning.under(1000);
  EXPECT_GE(planned.policy.micro_batch.value_or(16), 5);
  planning.policy.min_micro_batch = 17;
  EXPECT_THROW(planning.under(1000), runner::StageError);
}

TEST(ChoosePolicy, IsReplayedIfItStillFits) {
  OpenPlanning planning;
  const std::int64_t whole = planning.whole();
  const PlannedStep first = planning.under(whole - 1);
  ASSERT_GT(first.plan.choice->overrides.size(), 0U);
  planning.context.earlier_step_again = first.plan.step;
  const PlannedStep second = planning.under(2 * whole);
  EXPECT_EQ(second.plan.step, first.plan.step);
  EXPECT_TRUE(second.plan.choice->is_replayed);
  EXPECT_THAT(runner::choice_text(second.plan), HasSubstr("chosen when the run started: "));
  const PlannedStep third = planning.under(first.plan.needed - 1);
  EXPECT_NE(third.plan.step, first.plan.step);
  EXPECT_THAT(third.plan.choice->summary,
              HasSubstr("the choice made when the run started no longer fits"));
}

TEST(ChoosePolicy, SameTrainingGetsTheSamePlan) {
  OpenPlanning one, other;
  const std::int64_t budget = one.whole() / 2;
  EXPECT_EQ(to_json(one.under(budget).plan), to_json(other.under(budget).plan));
}

TEST(ChoosePolicy, MicroBatchesAreStillChosenIfOptimizerModesAreOpen) {
  OpenPlanning planning;
  const std::int64_t least = planning.under(1).plan.needed;
  const PlannedStep before = planning.under(least);
  ASSERT_TRUE(before.plan.fits());
  ASSERT_GT(before.policy.micro_batch.value_or(0), 0);
  planning.policy.offload_is_open = planning.policy.in_backward_is_open = true;
  const PlannedStep after = planning.under(least);
  EXPECT_TRUE(after.plan.fits());
  EXPECT_LE(seconds_of(after.plan), seconds_of(before.plan)) << "there are more choices";
}

}  // namespace
}  // namespace stages
