#include "runner/shared/stage/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/memory_plans.h"

namespace runner {
namespace {

/// memory_plan() with a choice that needs 1.25 GiB instead of 2 GiB.
MemoryPlan chosen_plan() {
  MemoryPlan plan = memory_plan();
  plan.traffic = 3e9;
  plan.operations = 321;
  plan.choice = PlanChoice{.overrides = {"memory.micro_batch=16"},
                           .exactness = "exact",
                           .summary = "micro_batch 16 (4 parts)",
                           .whole = std::int64_t{2} << 30,
                           .relative_time = 1.074,
                           .time_model = "time-1",
                           .is_replayed = false};
  return plan;
}

TEST(MemoryPlan, ChoiceSurvivesJson) {
  for (const bool is_replayed : {false, true}) {
    MemoryPlan plan = chosen_plan();
    plan.choice->is_replayed = is_replayed;
    const MemoryPlan again = memory_plan_from_json(to_json(plan));
    EXPECT_EQ(to_json(again), to_json(plan));
    ASSERT_TRUE(again.choice);
    EXPECT_EQ(again.choice->is_replayed, is_replayed);
    EXPECT_EQ(again.choice->whole, plan.choice->whole);
    EXPECT_EQ(again.step, plan.step);
    EXPECT_EQ(again.operations, 321);
    EXPECT_EQ(again.traffic, 3e9);
  }
}

TEST(MemoryPlan, ReasonForMeasuringSurvivesJson) {
  MemoryPlan plan = memory_plan();
  EXPECT_FALSE(to_json(plan).contains("measured"));
  plan.measured = "RuntimeError: no item() (net.py:3)";
  EXPECT_EQ(memory_plan_from_json(to_json(plan)), plan);
}

TEST(MemoryPlan, RecordOfAnEarlierVersionIsRead) {
  MemoryPlan plan = chosen_plan();
  plan.alternatives = {{.overrides = {"memory.micro_batch=8"}, .exactness = "exact", .needed = 7}};
  nlohmann::ordered_json old = to_json(plan);
  for (nlohmann::ordered_json* one : {&old, &old["alternatives"][0]}) {
    (*one)["predicted"] = one->at("needed");
    one->erase("needed");
  }
  EXPECT_EQ(memory_plan_from_json(old), plan);
}

TEST(ChoiceText, ShowsSavingsAndCosts) {
  MemoryPlan plan = chosen_plan();
  EXPECT_EQ(choice_text(plan),
            "chosen: micro_batch 16 (4 parts): 1.25 GiB instead of 2.00 GiB, in about 7% more "
            "time; equal in exact arithmetic");
  plan.choice->exactness = "bit";
  plan.choice->relative_time = 1.004;
  EXPECT_EQ(choice_text(plan),
            "chosen: micro_batch 16 (4 parts): 1.25 GiB instead of 2.00 GiB, in about the same "
            "time; every bit of the result stays the same");
}

TEST(ChoiceText, EqualNumbersShowNoSavings) {
  MemoryPlan plan = chosen_plan();
  plan.choice->whole = plan.needed + 1;
  EXPECT_EQ(choice_text(plan),
            "chosen: micro_batch 16 (4 parts): 1.25 GiB, the same as without it, in about 7% more "
            "time; equal in exact arithmetic");
}

TEST(ChoiceText, WholeBatchNeedsNoReason) {
  MemoryPlan plan = chosen_plan();
  plan.choice->overrides.clear();
  plan.choice->summary = "the whole batch at once";
  EXPECT_EQ(choice_text(plan), "chosen: the whole batch at once");
}

TEST(ChoiceText, ShowsReplayedAndInsufficientChoices) {
  MemoryPlan plan = chosen_plan();
  plan.choice->overrides.clear();
  plan.choice->is_replayed = true;
  EXPECT_EQ(choice_text(plan), "chosen when the run started: micro_batch 16 (4 parts)");
  plan.budget = 1;
  EXPECT_EQ(choice_text(plan), "the choice that needs the least memory: micro_batch 16 (4 parts)");
}

}  // namespace
}  // namespace runner
