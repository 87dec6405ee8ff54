#include "stages/plan/memory_budget.h"

#include <vector>

#include <gmock/gmock.h>
#include <torch/types.h>

#include "stages/train/step_execution.h"
#include "tests/support/tower_planning.h"

namespace stages {
namespace {

using testing::ElementsAre;

bool everything(const MemoryPolicy&) { return true; }

/// Returns the sizes of successive micro-batches until there is no next plan.
std::vector<std::int64_t> sizes_after(
    MemoryPolicy policy, std::int64_t units,
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

TEST(NextPlan, OddSizesAreRoundedUp) {
  EXPECT_THAT(sizes_after({}, 105), ElementsAre(53, 27, 14, 7, 4, 2, 1));
}

TEST(NextPlan, StopsAtTheMinimum) {
  MemoryPolicy policy;
  policy.min_micro_batch = 5;
  EXPECT_THAT(sizes_after(policy, 32), ElementsAre(16, 8, 5));
}

TEST(NextPlan, MinimumAboveTheBatchKeepsItWhole) {
  MemoryPolicy policy;
  policy.min_micro_batch = 64;
  EXPECT_THAT(sizes_after(policy, 32), ElementsAre());
}

TEST(NextPlan, StartsWithTheMicroBatchOfTheRecipe) {
  MemoryPolicy policy;
  policy.micro_batch = 12;
  EXPECT_THAT(sizes_after(policy, 32), ElementsAre(6, 3, 2, 1));
  policy.micro_batch = 500;  // more than the batch has
  EXPECT_THAT(sizes_after(policy, 8), ElementsAre(4, 2, 1));
}

TEST(NextPlan, BlocksAreRecomputedAtTheMinimumIfAllowed) {
  MemoryPolicy policy;
  policy.micro_batch = policy.min_micro_batch = 4;
  EXPECT_FALSE(next_plan(policy, 32, everything)) << "only values set in the policy are used";
  for (const Allow allow : {Allow::kBit, Allow::kExact}) {
    policy.allow = allow;
    const auto next = next_plan(policy, 32, everything);
    ASSERT_TRUE(next);
    EXPECT_EQ(next->micro_batch, 4);
    EXPECT_EQ(next->activation_checkpointing, ActivationCheckpointing{.blocks = true});
    EXPECT_FALSE(next_plan(*next, 32, everything));
  }
}

TEST(NextPlan, BatchIsNotSplitIfBitsMustStay) {
  MemoryPolicy policy;
  policy.allow = Allow::kBit;
  const auto next = next_plan(policy, 32, everything);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->micro_batch, std::nullopt);
  EXPECT_TRUE(next->activation_checkpointing.blocks);
}

TEST(NextPlan, WholeBatchLossIsSplitInTwoPassesIfAllowed) {
  const auto accepts = [](const MemoryPolicy& policy) {
    return policy.two_pass || !policy.micro_batch;
  };
  MemoryPolicy policy;
  EXPECT_FALSE(next_plan(policy, 32, accepts));
  policy.allow = Allow::kExact;
  const auto next = next_plan(policy, 32, accepts);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->micro_batch, 16);
  EXPECT_TRUE(next->two_pass);
  EXPECT_EQ(next_plan(*next, 32, accepts)->micro_batch, 8);
}

TEST(NextPlan, UnsplittableBatchIsRecomputed) {
  MemoryPolicy policy;
  policy.allow = Allow::kExact;
  const auto next =
      next_plan(policy, 32, [](const MemoryPolicy& asked) { return !asked.micro_batch; });
  ASSERT_TRUE(next);
  EXPECT_EQ(next->micro_batch, std::nullopt);
  EXPECT_FALSE(next->two_pass);
  EXPECT_TRUE(next->activation_checkpointing.blocks);
}

TEST(NextPlan, MicroBatchesDisableOptimizerInBackward) {
  MemoryPolicy policy;
  policy.optimizer_in_backward = true;
  EXPECT_FALSE(next_plan(policy, 8, everything)->optimizer_in_backward);
  policy.allow = Allow::kBit;
  const auto recomputed = next_plan(policy, 8, everything);
  ASSERT_TRUE(recomputed);
  EXPECT_TRUE(recomputed->optimizer_in_backward);
}

constexpr std::int64_t kPlenty = std::int64_t{1} << 40;

/// A training run with a policy that leaves everything open, and the search for its plan.
struct SearchingAgain : TowerPlanning {
  explicit SearchingAgain(std::int64_t width = 64, std::int64_t pixels = 32)
      : TowerPlanning(3, {40, pixels}, width) {
    policy.allow = Allow::kExact;
    policy.checkpointing_is_open = policy.two_pass_is_open = true;
  }
  PolicySearch search(std::int64_t budget = kPlenty) {
    return policy_search(training, budget, context);
  }
  Replan replan() { return search_again(search()); }
  std::int64_t needed(const MemoryPolicy& one) { return search().trace(one).plan.needed; }
  MemoryPolicy whole() { return choose_policy(search()).policy; }

  const DatasetDescription description = data.describe();
  const TrainingToPlan training{.step = step,
                                .model = model,
                                .data = description,
                                .network_data = description,
                                .loader = data.loader(),
                                .options = options,
                                .policy = policy};
};

bool is_same_way(const MemoryPolicy& one, const MemoryPolicy& other) {
  return one.micro_batch == other.micro_batch && one.two_pass == other.two_pass &&
         one.activation_checkpointing == other.activation_checkpointing;
}

TEST(SearchAgain, ChoosesLikeAPlanThatFitsTheFreeMemory) {
  SearchingAgain training;
  const MemoryPolicy whole = training.whole();
  const std::int64_t free = training.needed(whole) * 6 / 10;
  const auto other = training.replan()(whole, free);
  ASSERT_TRUE(other);
  EXPECT_LE(training.needed(*other), free);
  EXPECT_TRUE(is_same_way(*other, choose_policy(training.search(free)).policy));
  EXPECT_FALSE(other->leaves_a_choice() && other->checkpointing_is_open) << "nothing is left open";
}

TEST(SearchAgain, ChoosesAMuchSmallerPlanIfOutOfMemoryDespiteFreeMemory) {
  SearchingAgain training;
  const MemoryPolicy whole = training.whole();
  const auto other = training.replan()(whole, kPlenty);
  ASSERT_TRUE(other);
  EXPECT_LE(static_cast<double>(training.needed(*other)),
            kShrunk * static_cast<double>(training.needed(whole)));
}

TEST(SearchAgain, EachChoiceNeedsLessMemoryUntilNoneIsLeft) {
  SearchingAgain training;
  const Replan replan = training.replan();
  MemoryPolicy way = training.whole();
  std::int64_t before = training.needed(way);
  int count = 0;
  while (const auto other = replan(way, kPlenty)) {
    ASSERT_LT(training.needed(*other), before);
    before = training.needed(way = *other);
    ASSERT_LT(++count, 64);
  }
  EXPECT_GE(count, 2);
  EXPECT_EQ(way.micro_batch, 1) << "the smallest possible";
}

TEST(SearchAgain, StaysWithinTheAllowedChoices) {
  SearchingAgain training;
  training.policy.allow = Allow::kBit;
  const auto other = training.replan()(training.whole(), kPlenty);
  ASSERT_TRUE(other);
  EXPECT_EQ(other->micro_batch, std::nullopt);
  EXPECT_TRUE(other->activation_checkpointing.recomputes());
}

TEST(SearchAgain, OptimizerStateIsNotMoved) {
  SearchingAgain training(512, /*pixels=*/128);  // large compared with a GPU's segments
  training.context.facts.device = "cuda:0";
  training.context.asked.device_model = "NVIDIA L4";
  training.policy.allow = Allow::kBit;
  training.policy.checkpointing_is_open = training.policy.two_pass_is_open = false;
  training.policy.offload_is_open = true;
  const MemoryPolicy there = training.whole();
  ASSERT_FALSE(there.offloads_optimizer);
  EXPECT_TRUE(choose_policy(training.search(training.needed(there) - 1)).policy.offloads_optimizer);
  EXPECT_FALSE(training.replan()(there, kPlenty)) << "there is nothing else to choose";
  training.policy.checkpointing_is_open = true;
  MemoryPolicy away = there;
  away.offloads_optimizer = true;
  const auto other = training.replan()(away, kPlenty);
  ASSERT_TRUE(other);
  EXPECT_TRUE(other->offloads_optimizer);
}

TEST(SearchAgain, BudgetOfTheRecipeIsRespected) {
  SearchingAgain training;
  const MemoryPolicy whole = training.whole();
  training.policy.budget = training.needed(whole) * 6 / 10;
  const auto other = training.replan()(whole, kPlenty);
  ASSERT_TRUE(other);
  EXPECT_LE(training.needed(*other), *training.policy.budget);
}

TEST(SearchAgain, OutOfMemoryDuringTheSearchFindsNothing) {
  SearchingAgain training;
  PolicySearch search = training.search();
  const MemoryPolicy whole = training.whole();
  search.trace = [](const MemoryPolicy&) -> TracedPolicy { throw std::bad_alloc(); };
  EXPECT_FALSE(search_again(search)(whole, kPlenty));
  search.trace = [](const MemoryPolicy&) -> TracedPolicy { throw std::logic_error("a mistake"); };
  EXPECT_THROW(search_again(search)(whole, kPlenty), std::logic_error);
}

TEST(SearchAgain, LeavesTheGeneratorAlone) {
  SearchingAgain training;
  const MemoryPolicy whole = training.whole();
  torch::manual_seed(3);
  const at::Tensor expected = torch::rand(4);
  torch::manual_seed(3);
  training.replan()(whole, kPlenty);
  EXPECT_TRUE(torch::rand(4).equal(expected));
}

}  // namespace
}  // namespace stages
