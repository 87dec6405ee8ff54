#include "stages/plan/step_profile.h"

#include <cstdint>
#include <random>

#include <gmock/gmock.h>

namespace stages {
namespace {

double flops_of(const StepWork& work) { return work.flops; }

struct Profiles {
  StepProfile kept, recomputed;
};

/// A chain of blocks with activations of `bytes[i]`, inputs of 1 byte and a computation of
/// `flops[i]`.
Profiles chain(const std::vector<std::int64_t>& bytes, const std::vector<double>& flops) {
  Profiles chain;
  std::int64_t kept = 0, recomputed = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    chain.kept.between.push_back(kept);
    chain.recomputed.between.push_back(recomputed);
    chain.kept.blocks.push_back(
        {.path = "block", .held = bytes[i], .peak = kept + bytes[i], .forward = {flops[i]}});
    chain.recomputed.blocks.push_back(
        {.path = "block", .held = 1, .peak = recomputed + 1 + bytes[i], .forward = {flops[i]}});
    kept += bytes[i];
    recomputed += 1;
  }
  chain.kept.between.push_back(kept);
  chain.recomputed.between.push_back(recomputed);
  return chain;
}

TEST(BlockChoice, EverythingIsKeptIfItFits) {
  const Profiles three = chain({10, 10, 10}, {1, 1, 1});
  EXPECT_THAT(choose_blocks(three.kept, three.recomputed, 30, flops_of),
              testing::Optional(testing::Each(false)));
}

TEST(BlockChoice, CheapestBlockIsRecomputed) {
  const Profiles three = chain({10, 10, 10}, {3, 1, 2});
  EXPECT_THAT(choose_blocks(three.kept, three.recomputed, 25, flops_of),
              testing::Optional(testing::ElementsAre(false, true, false)));
}

TEST(BlockChoice, LastBlockIsNotRecomputedWithoutASaving) {
  const Profiles two = chain({10, 10}, {5, 1});
  EXPECT_THAT(choose_blocks(two.kept, two.recomputed, 15, flops_of),
              testing::Optional(testing::ElementsAre(true, false)));
}

TEST(BlockChoice, ReturnsNothingIfNoChoiceFits) {
  const Profiles two = chain({10, 10}, {1, 1});
  EXPECT_EQ(choose_blocks(two.kept, two.recomputed, 10, flops_of), std::nullopt);
}

TEST(BlockChoice, CountsMemoryBetweenAfterAndOutsideBlocks) {
  Profiles two = chain({10, 10}, {1, 1});  // keeping one holds nine more bytes
  const auto needed = [&](bool first, bool second) {
    return bytes_needed(two.kept, two.recomputed, {first, second});
  };
  EXPECT_EQ(needed(false, false), 20);
  two.kept.between[1] = 50;
  EXPECT_EQ(needed(false, false), 50);
  EXPECT_EQ(needed(true, false), 50 - 9);
  two.kept.between[2] = 70;
  EXPECT_EQ(needed(false, true), 70 - 9);
  EXPECT_EQ(needed(true, true), 70 - 18);
  two.kept.elsewhere = 100;
  EXPECT_EQ(needed(true, true), 100);
  two.recomputed.elsewhere = 200;
  EXPECT_EQ(needed(false, false), 200);
  EXPECT_EQ(choose_blocks(two.kept, two.recomputed, 199, flops_of), std::nullopt);
}

TEST(BlockChoice, HeldBytesAreRoundedUp) {
  const Profiles two = chain({40960, 40961}, {1, 2});
  const std::int64_t budget = 81920;  // in units of ten bytes
  ASSERT_EQ(bytes_needed(two.kept, two.recomputed, {false, false}), budget + 1);
  EXPECT_THAT(choose_blocks(two.kept, two.recomputed, budget, flops_of),
              testing::Optional(testing::ElementsAre(true, false)));
}

/// Tries all subsets of a few blocks.
TEST(BlockChoice, NoFittingSubsetIsCheaper) {
  std::mt19937_64 random(3);
  const auto number = [&](std::int64_t most) {
    return static_cast<std::int64_t>(random() % most) + 1;
  };
  for (int round = 0; round < 300; ++round) {
    const auto blocks = static_cast<std::size_t>(number(8));
    std::vector<std::int64_t> bytes;
    std::vector<double> flops;
    std::int64_t all = 0;
    for (std::size_t i = 0; i < blocks; ++i) {
      bytes.push_back(number(100) + 1);
      flops.push_back(static_cast<double>(number(50)));
      all += bytes.back();
    }
    const Profiles given = chain(bytes, flops);
    const std::int64_t budget = number(all);
    std::optional<double> cheapest;
    for (std::size_t subset = 0; subset < (std::size_t{1} << blocks); ++subset) {
      std::vector<bool> recomputed(blocks);
      double cost = 0;
      for (std::size_t i = 0; i < blocks; ++i) {
        recomputed[i] = (subset >> i) % 2 == 1;
        if (recomputed[i]) cost += flops[i];
      }
      if (bytes_needed(given.kept, given.recomputed, recomputed) > budget) continue;
      if (!cheapest || cost < *cheapest) cheapest = cost;
    }
    const auto chosen = choose_blocks(given.kept, given.recomputed, budget, flops_of);
    ASSERT_EQ(chosen.has_value(), cheapest.has_value()) << "round " << round;
    if (!chosen) continue;
    double cost = 0;
    for (std::size_t i = 0; i < blocks; ++i) cost += (*chosen)[i] ? flops[i] : 0;
    EXPECT_EQ(cost, *cheapest) << "round " << round;
    EXPECT_LE(bytes_needed(given.kept, given.recomputed, *chosen), budget) << "round " << round;
  }
}

}  // namespace
}  // namespace stages
