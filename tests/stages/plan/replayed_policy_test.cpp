// Checks which policy an earlier plan's step describes, and whether the recipe still allows it.
#include <stdexcept>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "stages/plan/replayed_policy.h"
#include "stages/train/step_plan.h"

namespace stages {
namespace {

using testing::ElementsAre;

/// Returns a policy that leaves everything open.
MemoryPolicy open_policy() {
  MemoryPolicy policy;
  policy.allow = Allow::kExact;
  policy.two_pass_is_open = policy.checkpointing_is_open = true;
  return policy;
}

std::optional<MemoryPolicy> replayed(const StepPlan& step, const MemoryPolicy& written) {
  return replayed_policy(to_json(step), written, "model");
}

TEST(ReplayedPolicy, MatchesTheRecordedStep) {
  MemoryPolicy written = open_policy();
  written.activation_checkpointing.updates_twice = true;
  const auto policy = replayed({.micro_batch = 4,
                                .two_pass = true,
                                .activation_checkpointing = {.modules = {"layers.0", "layers.2"}}},
                               written);
  ASSERT_TRUE(policy);
  EXPECT_EQ(policy->micro_batch, 4);
  EXPECT_TRUE(policy->two_pass);
  EXPECT_THAT(policy->activation_checkpointing.modules,
              ElementsAre("model.layers.0", "model.layers.2"));
  EXPECT_TRUE(policy->activation_checkpointing.updates_twice) << "the recipe sets that option";
  EXPECT_FALSE(policy->leaves_a_choice() &&
               (policy->two_pass_is_open || policy->checkpointing_is_open));
}

TEST(ReplayedPolicy, SupportsTheWholeBatchAndAllBlocks) {
  const auto policy = replayed({.activation_checkpointing = {.blocks = true}}, open_policy());
  ASSERT_TRUE(policy);
  EXPECT_EQ(policy->micro_batch, std::nullopt);
  EXPECT_TRUE(policy->activation_checkpointing.blocks);
}

TEST(ReplayedPolicy, IsEmptyWithoutAnEarlierStep) {
  EXPECT_FALSE(replayed_policy({}, open_policy(), "model"));
  EXPECT_FALSE(replayed_policy(nullptr, open_policy(), "model"));
}

TEST(ReplayedPolicy, InvalidStepIsAnError) {
  EXPECT_THROW(replayed_policy({{"micro_batch", -1}}, open_policy(), "model"), std::runtime_error);
  EXPECT_THROW(replayed_policy({{"micro_batch", 4}}, open_policy(), "model"), std::runtime_error);
}

TEST(ReplayedPolicy, BatchIsOnlySplitIfAllowed) {
  const StepPlan cut{.micro_batch = 4};
  MemoryPolicy written = open_policy();
  EXPECT_TRUE(replayed(cut, written));
  written.allow = Allow::kBit;
  EXPECT_FALSE(replayed(cut, written));
  written.micro_batch = 4;  // set by the recipe
  EXPECT_TRUE(replayed(cut, written));
  written.micro_batch = 8;
  written.allow = Allow::kExact;
  EXPECT_FALSE(replayed(cut, written));
}

TEST(ReplayedPolicy, AccumulatedPartMayBeSmallerButNotLarger) {
  MemoryPolicy written = open_policy();
  written.micro_batch = 8;
  written.micro_batch_is_most = true;
  EXPECT_TRUE(replayed({.micro_batch = 4}, written));
  EXPECT_TRUE(replayed({.micro_batch = 8}, written));
  EXPECT_FALSE(replayed({.micro_batch = 16}, written));
}

TEST(ReplayedPolicy, MinimumIsRespected) {
  MemoryPolicy written = open_policy();
  written.min_micro_batch = 5;
  EXPECT_FALSE(replayed({.micro_batch = 4}, written));
  EXPECT_TRUE(replayed({.micro_batch = 5}, written));
}

TEST(ReplayedPolicy, PassesAndBlocksFollowTheRecipeUnlessOpen) {
  MemoryPolicy written = open_policy();
  written.two_pass_is_open = false;
  EXPECT_FALSE(replayed({.micro_batch = 4, .two_pass = true}, written));
  written.two_pass = true;
  EXPECT_TRUE(replayed({.micro_batch = 4, .two_pass = true}, written));
  EXPECT_FALSE(replayed({.micro_batch = 4}, written));
  written = open_policy();
  written.checkpointing_is_open = false;
  EXPECT_FALSE(replayed({.activation_checkpointing = {.blocks = true}}, written));
  written.activation_checkpointing.blocks = true;
  EXPECT_TRUE(replayed({.activation_checkpointing = {.blocks = true}}, written));
  EXPECT_FALSE(replayed({}, written));
}

}  // namespace
}  // namespace stages
