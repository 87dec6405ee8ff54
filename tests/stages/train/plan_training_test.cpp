#include "stages/train/plan_training.h"

#include <algorithm>
#include <set>

#include <gmock/gmock.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/shared/stage/stage.h"
#include "stages/machine/cpu_pool.h"
#include "tests/support/counted_as_planned.h"
#include "tests/support/tower_planning.h"

namespace stages {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

std::int64_t bytes_of(const std::vector<runner::NamedBytes>& owners, const std::string& name) {
  const auto found = std::ranges::find(owners, name, &runner::NamedBytes::name);
  return found == owners.end() ? 0 : found->bytes;
}

TEST(PlanTraining, GeneratorStateIsCounted) {
  const auto bytes =
      static_cast<std::int64_t>(at::detail::getDefaultCPUGenerator().get_state().nbytes());
  EXPECT_EQ(bytes_of(TowerPlanning().plan().owners, "buffer"), bytes)
      << "the tower has no buffers of its own";
}

TEST(PlanTraining, PlannedPeakMatchesTraining) {
  TowerPlanning planning;
  expect_counted_as_planned(planning.measured(), planning.plan(), 1 / 1.35);
}

TEST(PlanTraining, PlannedPeakWithAWeightAverageMatchesTraining) {
  TowerPlanning planning, without;
  const std::int64_t before = bytes_of(without.plan().owners, "optimizer_state");
  planning.options.average = WeightAverageOptions{.decay = 0.9};
  const runner::MemoryPlan plan = planning.plan();
  // Adam keeps two copies of the trained weights; the average is a third.
  EXPECT_NEAR(
      static_cast<double>(bytes_of(plan.owners, "optimizer_state")) / static_cast<double>(before),
      1.5, 0.01);
  expect_counted_as_planned(planning.measured(), plan, 1 / 1.35);
}

TEST(PlanTraining, PlannedPeakWithEveryOptimizerMatchesTraining) {
  for (std::size_t rule = 0; rule < std::size(kEveryRule); ++rule) {
    SCOPED_TRACE("rule " + std::to_string(rule));
    TowerPlanning planning;
    planning.options.optimizer = kEveryRule[rule];
    expect_counted_as_planned(planning.measured(), planning.plan(), 1 / 1.35);
  }
}

TEST(PlanTraining, PlannedPeakWithGradientClippingMatchesTraining) {
  TowerPlanning by_value, adaptive;
  by_value.options.gradient_clip_value = 1e-3;
  expect_counted_as_planned(by_value.measured(), by_value.plan(), 1 / 1.35);
  adaptive.options.adaptive_gradient_clip = AdaptiveClip{.factor = 1e-3, .epsilon = 1e-3};
  expect_counted_as_planned(adaptive.measured(), adaptive.plan(), 1 / 1.35);
}

TEST(PlanTraining, GradientHistogramsArePlanned) {
  TowerPlanning plain;
  plain.options.batch_size = 1;  // weights and gradients need more than activations
  const runner::MemoryPlan without = plain.plan();
  for (const std::int64_t every : {1, 1000}) {
    TowerPlanning counted;
    counted.options.batch_size = 1;
    counted.options.log_gradients_every = every;
    const runner::MemoryPlan plan = counted.plan();
    EXPECT_GT(plan.operations, without.operations);
    EXPECT_GE(plan.live, without.live);
    expect_counted_as_planned(counted.measured(), plan, 1 / 1.35);
  }
}

TEST(PlanTraining, InitiallyFrozenGroupsArePlannedAsTrained) {
  TowerPlanning all, late;
  const std::string first = all.model.build(all.data.describe(), 1)->named_parameters()[0].key();
  late.options.parameter_groups = {{.name = "late", .match = {first}, .frozen_epochs = 1}};
  EXPECT_EQ(late.plan().live, all.plan().live);
}

TEST(PlanTraining, PlannedPeakWithMixedSamplesMatchesTraining) {
  TowerPlanning planning;
  planning.step.mixing = {.mixup_alpha = 1, .cutmix_alpha = 1};
  expect_counted_as_planned(planning.measured(), planning.plan(), 1 / 1.35);
}

TEST(PlanTraining, PlanReportsMoreOperationsForMicroBatches) {
  TowerPlanning planning;
  planning.context.asked.wants_alternatives = true;
  const runner::MemoryPlan plan = planning.plan();
  EXPECT_GT(plan.operations, 100);
  const auto cost = [&](const char* way) {
    const auto found = std::ranges::find(plan.alternatives, std::vector<std::string>{way},
                                         &runner::PlanAlternative::overrides);
    return found == plan.alternatives.end() ? 0 : found->relative_operations;
  };
  // Micro-batches do not repeat the optimizer's operations.
  EXPECT_THAT(cost("memory.micro_batch=8"), testing::AllOf(testing::Gt(1.5), testing::Le(2.0)));
  EXPECT_THAT(cost("memory.micro_batch=2"), testing::AllOf(testing::Gt(5.0), testing::Le(8.0)));
}

// The cost of a step is that of the last planned step, by which the optimizer has its state.
TEST(PlanTraining, CostCoversOneStep) {
  TowerPlanning whole(3, {32, 32}), with_rest(3, {40, 32});
  const runner::MemoryPlan two = whole.plan(), three = with_rest.plan();
  EXPECT_GT(two.traffic, 0);
  EXPECT_EQ(two.traffic, three.traffic);
  EXPECT_EQ(two.flops, three.flops);
  EXPECT_EQ(two.operations, three.operations);
}

// A step with two forward passes and a backward pass, instead of one of each; recomputing does not
// change the operations of the optimizer.
TEST(PlanTraining, PlanReportsMoreOperationsForRecomputedBlocks) {
  TowerPlanning planning;
  const runner::MemoryPlan kept = planning.plan();
  planning.policy.activation_checkpointing = {.blocks = true};
  const runner::MemoryPlan recomputed = planning.plan();
  const double ratio =
      static_cast<double>(recomputed.operations) / static_cast<double>(kept.operations);
  EXPECT_THAT(ratio, testing::AllOf(testing::Gt(1.05), testing::Lt(1.5)));
}

TEST(PlanTraining, PlannedPeakWithMicroBatchesMatchesTraining) {
  TowerPlanning planning;
  planning.policy.micro_batch = 5;
  expect_counted_as_planned(planning.measured(), planning.plan(), 1 / 1.35);
}

TEST(PlanTraining, ReportsTheOwnersOfTheBytes) {
  TowerPlanning planning;
  const runner::MemoryPlan plan = planning.plan();
  std::int64_t parameters = 0;
  for (const at::Tensor& parameter :
       planning.model.build(planning.data.describe(), 1)->parameters())
    parameters += static_cast<std::int64_t>(parameter.nbytes());
  EXPECT_EQ(bytes_of(plan.owners, "parameter"), parameters);
  // Adam stores two moments and a step count per parameter.
  EXPECT_NEAR(static_cast<double>(bytes_of(plan.owners, "optimizer_state")),
              2.0 * static_cast<double>(parameters), 0.01 * static_cast<double>(parameters));
  EXPECT_GE(bytes_of(plan.owners, "input"), 16 * 3 * 32 * 32 * 4);
  EXPECT_GT(bytes_of(plan.owners, "saved_activation"), 0);
  EXPECT_EQ(plan.device, "cpu");
  EXPECT_EQ(plan.step.at("micro_batch"), 0);
  EXPECT_LE(plan.largest.size(), 10U);
}

TEST(PlanTraining, LargestTensorsHaveTheirModulePath) {
  TowerPlanning planning;
  std::vector<std::string> names;
  for (const runner::AliveTensor& tensor : planning.plan().largest) {
    if (tensor.owner == "saved_activation") names.push_back(tensor.name);
  }
  ASSERT_FALSE(names.empty());
  EXPECT_THAT(names, Each(testing::StartsWith("model.vision_model.")));
}

TEST(PlanTraining, ValidationAndTheBestWeightsAreCounted) {
  TowerPlanning planning;
  const DatasetDescription data = planning.data.describe();
  planning.options.keep = Keep::kBest;
  const TrainingToPlan training{.step = planning.step,
                                .model = planning.model,
                                .data = data,
                                .network_data = data,
                                .validation = &data,
                                .options = planning.options,
                                .policy = planning.policy};
  const runner::MemoryPlan plan = plan_training(training, planning.context).plan;
  std::vector<std::string> phases;
  for (const runner::PhaseMark& mark : plan.phases) phases.push_back(mark.phase);
  EXPECT_THAT(phases,
              testing::IsSupersetOf({"forward", "backward", "evaluate", "checkpoint load"}));
}

TEST(PlanTraining, PlanThatDoesNotFitSuggestsAlternatives) {
  TowerPlanning planning;
  const std::int64_t whole = planning.plan().needed;
  planning.context.asked.budget = {"a test", whole - 1};
  const runner::MemoryPlan plan = planning.plan();
  EXPECT_FALSE(plan.fits());
  EXPECT_EQ(plan.budget_from, "a test");
  constexpr std::string_view kOption = "memory.micro_batch=";
  const auto fits = [&](const runner::PlanAlternative& one) {
    return one.refused.empty() && one.needed < whole && one.overrides.at(0).starts_with(kOption);
  };
  ASSERT_TRUE(std::ranges::any_of(plan.alternatives, fits));
  // The first suggestion must be the largest micro-batch that fits: one more sample no longer fits.
  // Its size depends on the processor.
  const std::string first = std::ranges::find_if(plan.alternatives, fits)->overrides.at(0);
  planning.policy.micro_batch = std::stoll(first.substr(kOption.size())) + 1;
  EXPECT_GE(planning.plan().needed, whole);
}

TEST(PlanTraining, AlternativesAreNotRepeated) {
  for (const std::int64_t micro_batch : {0, 8, 4, 3}) {
    for (const std::int64_t budget : {std::int64_t{1} << 30, std::int64_t{1} << 20}) {
      TowerPlanning planning;
      if (micro_batch > 0) planning.policy.micro_batch = micro_batch;
      planning.context.asked.budget = {"a test", budget};
      planning.context.asked.wants_alternatives = true;
      std::set<std::vector<std::string>> offered;
      const runner::MemoryPlan plan = planning.plan();
      EXPECT_FALSE(plan.alternatives.empty());
      for (const runner::PlanAlternative& one : plan.alternatives)
        EXPECT_TRUE(offered.insert(one.overrides).second) << runner::override_text(one.overrides);
    }
  }
}

TEST(PlanTraining, OptionsReportTheirSavings) {
  TowerPlanning planning;
  const std::int64_t whole = planning.plan().needed;
  planning.policy.micro_batch = 4;
  planning.policy.empty_cache_every.steps = 10;
  const runner::MemoryPlan plan = planning.plan();
  ASSERT_EQ(plan.options.size(), 2U);
  EXPECT_EQ(plan.options[0].option, "memory.micro_batch");
  EXPECT_EQ(plan.options[0].bytes, whole - plan.needed);
  EXPECT_GT(plan.options[0].bytes, 0);
  EXPECT_EQ(plan.options[1].option, "memory.empty_cache_every");
  EXPECT_EQ(plan.options[1].value, "{steps: 10}");
  EXPECT_EQ(plan.options[1].bytes, 0);
}

TEST(PlanTraining, SplitThatChangesTrainingIsRejected) {
  TowerPlanning planning;
  planning.step.mixes = true;
  planning.policy.micro_batch = 4;
  EXPECT_THROW(planning.plan(), runner::StageError);
}

TEST(PlanTraining, BatchesReadAheadAreCounted) {
  TowerPlanning planning;
  const std::int64_t alone = planning.plan().needed;
  planning.data.options.workers = 2;
  planning.data.options.prefetch = 2;
  const std::int64_t sample = 3 * 32 * 32 * 4 + 8;
  EXPECT_EQ(planning.plan().needed, alone + (24 + 2) * sample);  // 16 of 40 samples are computed
  planning.data.options.prefetch = 1;
  EXPECT_EQ(planning.plan().needed, alone + (16 + 2) * sample);
  TowerPlanning dropping;
  dropping.data.options.drop_last = true;
  const std::int64_t without_the_rest = dropping.plan().needed;
  dropping.data.options.workers = dropping.data.options.prefetch = 2;
  EXPECT_EQ(dropping.plan().needed, without_the_rest + (16 + 2) * sample);
}

TEST(PlanTraining, SmallestBudgetApplies) {
  TowerPlanning planning;
  planning.context.asked.budget = {"a test", 1000};
  planning.policy.memory_fraction = 0.5;
  EXPECT_EQ(planning.plan().budget, 500);
  EXPECT_EQ(planning.plan().budget_from, "memory_fraction of a test");
  planning.policy.budget = 400;
  EXPECT_EQ(planning.plan().budget, 400);
  EXPECT_EQ(planning.plan().budget_from, "memory.budget");
}

/// Returns how many bytes the CPU's pool reserves in the training itself.
std::int64_t reserved_by_training(const TowerPlanning& planning) {
  const CpuPool pool;
  const CountingAllocator counter;
  planning.measured();
  return pool.peak_reserved();
}

TEST(PlanTraining, ShorterBatchAtTheEndOfAnEpochIsCounted) {
  for (const std::int64_t rest : {4, 8, 15}) {
    TowerPlanning planning(3, {32 + rest, 32});
    planning.data.options.workers = 0;
    const runner::MemoryPlan plan = planning.plan();
    const auto took = static_cast<double>(reserved_by_training(planning));
    EXPECT_NEAR(static_cast<double>(plan.reserved), took, 0.02 * took) << rest;
    planning.data.options.drop_last = true;
    const runner::MemoryPlan whole_batches = planning.plan();
    EXPECT_LT(static_cast<double>(whole_batches.reserved), 0.97 * took)
        << "other sizes do not fill the gaps, " << rest;
    EXPECT_EQ(whole_batches.live, plan.live) << rest;
    EXPECT_EQ(whole_batches.operations, plan.operations) << rest;
    EXPECT_EQ(whole_batches.flops, plan.flops) << rest;
  }
}

/// A tower that is trained on a small batch with recomputed blocks, so that weights, gradients and
/// optimizer state dominate.
struct MostlyWeights : TowerPlanning {
  explicit MostlyWeights(std::int64_t width = 64) : TowerPlanning(4, {40, 32}, width) {
    options.batch_size = 2;
    policy.activation_checkpointing = {.blocks = true};
  }
};

std::int64_t weight_bytes(const TowerPlanning& planning) {
  std::int64_t bytes = 0;
  for (const at::Tensor& one : planning.model.build(planning.data.describe(), 1)->parameters())
    bytes += static_cast<std::int64_t>(one.nbytes());
  return bytes;
}

TEST(PlanTraining, PlannedPeakWithOptimizerInBackwardMatchesTraining) {
  MostlyWeights planning;
  const runner::MemoryPlan at_once = planning.plan();
  planning.policy.optimizer_in_backward = true;
  const runner::MemoryPlan plan = planning.plan();
  expect_counted_as_planned(planning.measured(), plan, 1 / 1.35);
  EXPECT_GT(at_once.live - plan.live, weight_bytes(planning) * 6 / 10)
      << "most gradients are freed before others exist";
  EXPECT_LT(bytes_of(plan.owners, "gradient"), bytes_of(at_once.owners, "gradient") / 2);
  EXPECT_EQ(plan.step.at("optimizer_in_backward"), true);
  ASSERT_EQ(plan.options.size(), 2U);
  EXPECT_EQ(plan.options[1].option, "memory.optimizer_in_backward");
  EXPECT_EQ(plan.options[1].bytes, at_once.needed - plan.needed);
}

TEST(PlanTraining, GpuHoldsTheBatchOfTheStepAndTheNextOne) {
  TowerPlanning planning;
  planning.context.facts.device = "cuda:0";
  planning.context.asked.device_model = "NVIDIA L4";
  constexpr std::int64_t kOfImage = 3 * 32 * 32 * sizeof(float), kOfLabel = sizeof(std::int64_t);
  EXPECT_EQ(bytes_of(planning.plan().owners, "input"),
            2 * planning.options.batch_size * (kOfImage + kOfLabel));
}

TEST(PlanTraining, OffloadedStateIsNotOnTheGpu) {
  MostlyWeights planning;
  planning.context.facts.device = "cuda:0";
  planning.context.asked.device_model = "NVIDIA L4";
  const runner::MemoryPlan there = planning.plan();
  planning.policy.offloads_optimizer = true;
  const runner::MemoryPlan away = planning.plan();
  const std::int64_t weights = weight_bytes(planning);
  EXPECT_NEAR(static_cast<double>(bytes_of(there.owners, "optimizer_state")),
              2.0 * static_cast<double>(weights), 0.01 * static_cast<double>(weights));
  EXPECT_LT(bytes_of(away.owners, "optimizer_state"), weights / 100) << "only the ages";
  EXPECT_GT(there.live - away.live, weights);
  EXPECT_NEAR(away.moved, 4.0 * static_cast<double>(weights), 0.02 * static_cast<double>(weights))
      << "in both directions";
  EXPECT_EQ(there.moved, 0);
  EXPECT_EQ(away.step.at("offload"), "optimizer");
  ASSERT_EQ(away.options.size(), 2U);
  EXPECT_EQ(away.options[1].option, "memory.offload");
  EXPECT_EQ(away.options[1].bytes, there.needed - away.needed);
}

TEST(PlanTraining, OffloadingSavesNothingOnACpuWhichIsReported) {
  TowerPlanning planning;
  const runner::MemoryPlan before = planning.plan();
  planning.policy.offloads_optimizer = true;
  const runner::MemoryPlan plan = planning.plan();
  EXPECT_EQ(plan.needed, before.needed);
  EXPECT_FALSE(plan.step.contains("offload"));
  EXPECT_THAT(plan.options,
              ElementsAre(runner::OptionEffect{"memory.offload", "optimizer", 0,
                                               "the optimizer state is in host memory anyway"}));
}

TEST(PlanTraining, AlternativesIncludeOptimizerModes) {
  MostlyWeights planning(512);  // larger than one of a GPU's segments
  planning.context.facts.device = "cuda:0";
  planning.context.asked.device_model = "NVIDIA L4";
  planning.context.asked.wants_alternatives = true;
  const auto ways = [&] {
    std::vector<std::string> ways;
    for (const runner::PlanAlternative& one : planning.plan().alternatives) {
      EXPECT_EQ(one.exactness,
                one.overrides[0].starts_with("memory.micro_batch") ? "exact" : "bit");
      ways.push_back(runner::override_text(one.overrides));
    }
    return ways;
  };
  EXPECT_THAT(ways(), testing::IsSupersetOf(
                          {"memory.offload=optimizer", "memory.optimizer_in_backward=true",
                           "memory.offload=optimizer memory.optimizer_in_backward=true"}));
  planning.options.gradient_clip_norm = 1;
  EXPECT_THAT(ways(), Each(testing::Not(HasSubstr("optimizer_in_backward"))))
      << "which is rejected";
}

}  // namespace
}  // namespace stages
