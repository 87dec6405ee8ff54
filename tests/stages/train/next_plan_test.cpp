#include "stages/train/next_plan.h"

#include <vector>

#include <gmock/gmock.h>

namespace stages {
namespace {

using testing::ElementsAre;

bool everything(const MemoryPolicy&) { return true; }

/// The sizes of the parts that follow one another until nothing does.
std::vector<std::int64_t> sizes_after(MemoryPolicy policy, std::int64_t units,
                                      const std::function<bool(const MemoryPolicy&)>& accepts = everything) {
  std::vector<std::int64_t> sizes;
  while (const auto next = next_plan(policy, units, accepts)) {
    policy = *next;
    sizes.push_back(*policy.micro_batch);
  }
  return sizes;
}

TEST(NextPlan, HalvesTheBatchDownToOneSample) {
  EXPECT_THAT(sizes_after({}, 128), ElementsAre(64, 32, 16, 8, 4, 2, 1));
}

TEST(NextPlan, OddSizesAreRoundedUpSoThatThePartsDouble) {
  EXPECT_THAT(sizes_after({}, 105), ElementsAre(53, 27, 14, 7, 4, 2, 1));
}

TEST(NextPlan, StopsAtTheFloorWhichIsReached) {
  MemoryPolicy policy;
  policy.min_micro_batch = 5;
  EXPECT_THAT(sizes_after(policy, 32), ElementsAre(16, 8, 5));
}

TEST(NextPlan, FloorAboveTheBatchLeavesItWhole) {
  MemoryPolicy policy;
  policy.min_micro_batch = 64;
  EXPECT_THAT(sizes_after(policy, 32), ElementsAre());
}

TEST(NextPlan, BeginsAtTheMicroBatchOfTheRecipe) {
  MemoryPolicy policy;
  policy.micro_batch = 12;
  EXPECT_THAT(sizes_after(policy, 32), ElementsAre(6, 3, 2, 1));
  policy.micro_batch = 500;  // more than there are
  EXPECT_THAT(sizes_after(policy, 8), ElementsAre(4, 2, 1));
}

TEST(NextPlan, BlocksAreRecomputedOnceTheFloorIsReachedAndThatIsAllowed) {
  MemoryPolicy policy;
  policy.micro_batch = policy.min_micro_batch = 4;
  EXPECT_FALSE(next_plan(policy, 32, everything)) << "nothing that is not written is chosen";
  for (const Allow allow : {Allow::kBit, Allow::kExact}) {
    policy.allow = allow;
    const auto next = next_plan(policy, 32, everything);
    ASSERT_TRUE(next);
    EXPECT_EQ(next->micro_batch, 4);
    EXPECT_EQ(next->activation_checkpointing, ActivationCheckpointing{.blocks = true});
    EXPECT_FALSE(next_plan(*next, 32, everything));
  }
}

TEST(NextPlan, WhereBitsAreToStayTheBatchIsNotCut) {
  MemoryPolicy policy;
  policy.allow = Allow::kBit;
  const auto next = next_plan(policy, 32, everything);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->micro_batch, std::nullopt);
  EXPECT_TRUE(next->activation_checkpointing.blocks);
}

TEST(NextPlan, LossOverTheWholeBatchIsCutInTwoPassesWhereThatIsAllowed) {
  const auto accepts = [](const MemoryPolicy& policy) { return policy.two_pass || !policy.micro_batch; };
  MemoryPolicy policy;
  EXPECT_FALSE(next_plan(policy, 32, accepts));
  policy.allow = Allow::kExact;
  const auto next = next_plan(policy, 32, accepts);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->micro_batch, 16);
  EXPECT_TRUE(next->two_pass);
  EXPECT_EQ(next_plan(*next, 32, accepts)->micro_batch, 8);
}

TEST(NextPlan, WhatCannotBeCutIsRecomputed) {
  MemoryPolicy policy;
  policy.allow = Allow::kExact;
  const auto next = next_plan(policy, 32, [](const MemoryPolicy& asked) { return !asked.micro_batch; });
  ASSERT_TRUE(next);
  EXPECT_EQ(next->micro_batch, std::nullopt);
  EXPECT_FALSE(next->two_pass);
  EXPECT_TRUE(next->activation_checkpointing.blocks);
}

TEST(NextPlan, PartsOfABatchHaveNoOptimizerInTheirBackwardPass) {
  MemoryPolicy policy;
  policy.optimizer_in_backward = true;
  EXPECT_FALSE(next_plan(policy, 8, everything)->optimizer_in_backward);
  policy.allow = Allow::kBit;
  const auto recomputed = next_plan(policy, 8, everything);
  ASSERT_TRUE(recomputed);
  EXPECT_TRUE(recomputed->optimizer_in_backward);
}

}  // namespace
}  // namespace stages
