#include "runner/worker/node_context.h"

#include <sstream>

#include <gtest/gtest.h>

#include "tests/support/memory_plans.h"

namespace runner {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

std::string help(const MemoryPlan& plan) { return does_not_fit(plan).help; }

TEST(Refusal, ReportsTheExcessAndAFittingAlternative) {
  std::ostringstream text;
  print(text, does_not_fit(plan_that_does_not_fit(), "/train"));
  EXPECT_EQ(
      text.str(),
      "error[E0706]: 'train' needs 1.25 GiB at its peak, and may use 1.00 GiB "
      "(memory.budget): 256.0 MiB too much [/train]\n"
      "  help: memory.micro_batch=8 fits: 700.0 MiB, and launches 2 times as many operations\n"
      "  note: the largest tensor at the peak: layer1.0.conv1 (16, 64, 112, 112) float32, "
      "49.0 MiB\n");
}

TEST(Refusal, SuggestsTheCheapestAlternativeThatFits) {
  MemoryPlan plan = plan_that_does_not_fit();
  plan.alternatives.push_back({{"memory.micro_batch=4"}, "exact", 400 * kMiB, 1});
  EXPECT_EQ(cheapest_that_fits(plan)->overrides.front(), "memory.micro_batch=8");
}

TEST(Refusal, RefusedAlternativesAreNotSuggested) {
  MemoryPlan plan = plan_that_does_not_fit();
  plan.alternatives[1].refused = "layers mix samples";
  plan.alternatives.push_back(
      {{"memory.activation_checkpointing=block", "memory.two_pass=on"}, "exact", 512 * kMiB, 1.3});
  EXPECT_EQ(help(plan), "memory.activation_checkpointing=block memory.two_pass=on fits: 512.0 MiB");
}

TEST(Refusal, MarksAlternativesThatChangeTraining) {
  MemoryPlan plan = plan_that_does_not_fit();
  plan.alternatives = {{{"memory.precision=bf16"}, "declared", 900 * kMiB, 1}};
  EXPECT_EQ(help(plan), "memory.precision=bf16 fits: 900.0 MiB, and changes the training");
}

TEST(Refusal, BudgetBelowTheWeightsIsReported) {
  MemoryPlan plan = memory_plan();
  plan.budget = 150 * kMiB;
  EXPECT_EQ(help(plan),
            "weights and gradients alone need 200.0 MiB: use a larger budget, another device or a "
            "smaller model");
}

TEST(Refusal, OnlyPresentOwnersAreListed) {
  MemoryPlan plan = memory_plan();
  plan.budget = 1;
  plan.owners = {{"parameter", 3 << 20}};
  EXPECT_EQ(help(plan),
            "weights alone need 3.0 MiB: use a larger budget, another device or a smaller model");
  plan.owners = {{"parameter", 1 << 20}, {"optimizer_state", 2 << 20}, {"gradient", 1 << 20}};
  EXPECT_EQ(
      help(plan),
      "weights, gradients and optimizer state alone need 4.0 MiB: use a larger budget, another "
      "device or a smaller model");
}

TEST(Refusal, ClosestAlternativeIsShownIfNoneFits) {
  MemoryPlan plan = memory_plan();
  plan.budget = 600 * kMiB;
  EXPECT_EQ(help(plan),
            "none of the alternatives fits; memory.micro_batch=8 comes closest: 700.0 MiB");
  plan.alternatives.clear();
  EXPECT_EQ(help(plan),
            "use a larger budget, another device, a smaller batch_size or smaller images");
}

}  // namespace
}  // namespace runner
