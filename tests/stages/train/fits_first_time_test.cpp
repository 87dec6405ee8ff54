// Plans a grid of recipes and budgets and runs each training with its budget: no accepted plan runs
// out of memory, and no batch is split further than such runs show to be necessary. A run does not
// count as fitting if it needs the memory planned for kernels, or the plan's margin, or if its pool
// repeatedly has to return unused blocks to the kernel to stay within the budget. Allocating them
// again costs more than another micro-batch, so plans do not rely on it.

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "runner/shared/stage/stage.h"
#include "stages/machine/counting_allocator.h"
#include "stages/machine/cpu_pool.h"
#include "stages/plan/summarize.h"
#include "tests/support/scoped_threads.h"
#include "tests/support/tower_planning.h"

namespace stages {
namespace {

struct GridRecipe {
  std::int64_t layers, image_size, batch;
  int threads;
  bool may_recompute;

  std::string text() const {
    return std::to_string(layers) + " layers, images of " + std::to_string(image_size) +
           ", batch " + std::to_string(batch) + ", " + std::to_string(threads) + " threads" +
           (may_recompute ? ", blocks may be recomputed" : "");
  }
};

struct GridTraining : TowerPlanning {
  explicit GridTraining(const GridRecipe& recipe)
      : TowerPlanning(recipe.layers, NoiseImages(2 * recipe.batch, recipe.image_size)) {
    options.epochs = 1;
    options.batch_size = recipe.batch;
    policy.allow = Allow::kExact;
    policy.checkpointing_is_open = recipe.may_recompute;
    policy.two_pass_is_open = true;
  }
  PlannedStep under(std::int64_t budget) {
    context.asked.budget = {"a test", budget};
    return planned();
  }
  runner::MemoryPlan plan_of(const MemoryPolicy& way) {
    const MemoryPolicy before = std::exchange(policy, way);
    runner::MemoryPlan result = plan();
    policy = before;
    return result;
  }
  struct Trial {
    std::int64_t refusals,
        retries;  // blocks that were refused, or granted only after others had been returned
    bool fits() const { return refusals == 0 && retries == 0; }
  };
  /// A training run with a memory budget.
  Trial trial(MemoryPolicy way, std::int64_t budget) const {
    const CpuPool pool;
    const CountingAllocator counter;
    way.budget = budget;
    RecordingContext running;
    const TrainingData given{std::make_shared<NoiseImages>(data), nullptr};
    try {
      train(step, *model.build(data.describe(), 1), given, options, way, running);
    } catch (const runner::StageError& error) {
      EXPECT_EQ(error.code, runner::ErrorCode::kOutOfMemory) << error.what();
    }
    return {counter.refusals(), pool.retries()};
  }
};

/// Returns micro-batch sizes larger than `size` that give different numbers of micro-batches, in
/// ascending order.
std::vector<std::int64_t> larger_sizes(std::int64_t size, std::int64_t batch) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t parts = (batch + size - 1) / size - 1; parts >= 1; --parts) {
    const std::int64_t larger = (batch + parts - 1) / parts;
    if (larger > (sizes.empty() ? size : sizes.back())) sizes.push_back(larger);
  }
  return sizes;
}

/// Returns the planned bytes beyond the tensors and the gaps between them.
std::int64_t spare(const runner::MemoryPlan& plan) {
  std::int64_t bytes = 0;
  for (const std::string_view name : {kMarginTerm, kKernelScratchTerm})
    bytes += std::ranges::find(plan.terms, name, &runner::NamedBytes::name)->bytes;
  return bytes;
}

/// RETORT_DEEP=1 enlarges the grid.
bool is_deep() { return std::getenv("RETORT_DEEP") != nullptr; }

std::vector<double> shares() {
  if (!is_deep()) return {0.0, 0.35, 0.85};
  return {0.0, 0.15, 0.35, 0.6, 0.85};
}

std::vector<GridRecipe> recipes() {
  if (!is_deep()) return {{3, 32, 16, 2, true}, {1, 48, 6, 1, false}, {2, 32, 9, 3, true}};
  std::vector<GridRecipe> all;
  for (const std::int64_t layers : {1, 2, 4})
    for (const std::int64_t image_size : {32, 48, 64})
      for (const std::int64_t batch : {6, 16, 21})
        for (const int threads : {1, 2})
          for (const bool may_recompute : {false, true})
            all.push_back({layers, image_size, batch, threads, may_recompute});
  return all;
}

TEST(FitsFirstTime, AcceptedPlansFitAndSplitNoFurtherThanNeeded) {
  for (const GridRecipe& recipe : recipes()) {
    const ScopedThreads threads(recipe.threads);
    GridTraining training(recipe);
    const std::int64_t whole = training.under(std::int64_t{1} << 40).plan.needed;
    const std::int64_t least = training.under(1000).plan.needed;
    ASSERT_LT(least, whole) << recipe.text();
    for (const double share : shares()) {
      const auto budget =
          least + static_cast<std::int64_t>(share * static_cast<double>(whole - least));
      const PlannedStep planned = training.under(budget);
      const std::string which =
          recipe.text() + ", " + std::to_string(budget) + " bytes: " + planned.plan.choice->summary;
      ASSERT_TRUE(planned.plan.fits()) << which;
      EXPECT_TRUE(training.trial(planned.policy, budget).fits()) << which;
      const std::int64_t size = planned.policy.micro_batch.value_or(recipe.batch);
      for (const std::int64_t larger : larger_sizes(size, recipe.batch)) {
        MemoryPolicy way = planned.policy;
        way.micro_batch = larger;
        EXPECT_FALSE(training.trial(way, budget - spare(training.plan_of(way))).fits())
            << which << ", and parts of " << larger << " fit";
      }
    }
  }
}

}  // namespace
}  // namespace stages
