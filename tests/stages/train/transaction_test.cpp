#include "stages/train/trainer.h"

#include <algorithm>
#include <span>
#include <string>

#include <gmock/gmock.h>
#include <torch/types.h>

#include "stages/machine/counting_allocator.h"
#include "stages/weights/weights.h"
#include "tests/support/optimizer_rules.h"
#include "tests/support/spoilt_training.h"

namespace stages {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::StartsWith;

/// Returns the live bytes when the step `step` has been computed, before its weights are written.
std::int64_t live_at(SpoiltTraining& training, int step, CountingAllocator& counter) {
  std::int64_t live = 0;
  training.context.on_progress =
      [&, then = training.context.on_progress](const runner::Progress& progress) {
        if (progress.step == step) live = counter.live_bytes();
        then(progress);
      };
  training.run();
  return live;
}

/// Refuses each block of a step in turn. The step is replayed, and the result is the same as
/// without a failure.
void refuse_every_block(const SpoiltCase& one, int spoilt_step, std::int64_t stride = 1) {
  SpoiltTraining undisturbed(one);
  std::int64_t base_line = 0;
  {
    CountingAllocator counter;
    undisturbed.counter = &counter;
    undisturbed.spoilt_step = spoilt_step;  // its state is kept too, but no block is refused
    base_line = live_at(undisturbed, spoilt_step, counter);
  }
  const SpoiltState expected = SpoiltState::of(*undisturbed.network);
  std::int64_t block = 1;
  for (;; block += stride) {
    SpoiltTraining spoilt(one);
    CountingAllocator counter;
    spoilt.counter = &counter;
    spoilt.spoilt_step = spoilt_step;
    spoilt.refused = block;
    spoilt.policy.recovery.max_retries = 1;
    bool was_refused = false;
    spoilt.context.on_progress =
        [&, then = spoilt.context.on_progress](const runner::Progress& progress) {
          if (progress.step == spoilt_step) was_refused = !counter.will_refuse();
          then(progress);
        };
    EXPECT_EQ(live_at(spoilt, spoilt_step, counter), base_line) << "block " << block;
    ASSERT_TRUE(SpoiltState::of(*spoilt.network).equals(expected)) << "block " << block;
    for (const char* name : {"train/loss", "train/gradient_norm", "train/loss_scale"})
      EXPECT_EQ(spoilt.context.values(name), undisturbed.context.values(name))
          << name << ", block " << block;
    if (!was_refused) break;
    EXPECT_THAT(spoilt.context.said,
                testing::Contains(
                    AllOf(StartsWith("step " + std::to_string(spoilt_step) + ": out of memory"),
                          EndsWith(": repeated unchanged, retry 1 of 1"))));
    ASSERT_EQ(spoilt.context.recoveries.size(), 1);
    EXPECT_EQ(spoilt.context.recoveries[0].step, spoilt_step);
    EXPECT_EQ(spoilt.context.recoveries[0].from, spoilt.context.recoveries[0].to);
    EXPECT_GT(spoilt.context.recoveries[0].tried, 0);
  }
  EXPECT_GT(block, 60);
}

/// Refuses each block of a step in turn, and one of its replay too: the step is then computed in
/// the next way, which gives the same weights in exact arithmetic, or with `bits` the same bits.
/// Both ways compute in float64.
void refuse_every_block_twice(const SpoiltCase& one, Allow allow, const std::string& way, bool bits,
                              std::int64_t stride = 1) {
  SpoiltTraining undisturbed(one);
  std::int64_t base_line = 0;
  {
    CountingAllocator counter;
    undisturbed.counter = &counter;
    undisturbed.spoilt_step = 2;  // its state is kept too, but no block is refused
    undisturbed.run();
    base_line = counter.live_bytes();
  }
  std::int64_t block = 1;
  for (;; block += stride) {
    SpoiltTraining spoilt(one);
    CountingAllocator counter;
    spoilt.counter = &counter;
    spoilt.spoilt_step = 2;
    spoilt.refused = block;
    spoilt.policy.allow = allow;
    spoilt.policy.recovery.max_retries.reset();
    int refusals = 0;
    spoilt.context.on_say = [&](std::string_view line) {
      if (!line.ends_with(": repeated unchanged, retry 1")) return;
      refusals = 1;
      counter.refuse(std::max<std::int64_t>(1, block / 2));
    };
    spoilt.run();
    const auto& recoveries = spoilt.context.recoveries;
    for (const auto& [name, tensor] : weights(*spoilt.network)) {
      const at::Tensor expected = weights(*undisturbed.network).at(name);
      if (bits || !tensor.is_floating_point())
        EXPECT_TRUE(tensor.equal(expected)) << name << ", block " << block;
      else
        EXPECT_LT(((tensor - expected).norm() / expected.norm()).item<double>(), 1e-12)
            << name << ", block " << block;
    }
    EXPECT_EQ(counter.live_bytes(), base_line) << "block " << block;
    if (testing::Test::HasFailure()) return;
    if (refusals == 0) break;
    ASSERT_EQ(recoveries.size(), 2) << "block " << block;
    EXPECT_EQ(recoveries[1].from, "the whole batch of 8");
    EXPECT_EQ(recoveries[1].to, way);
  }
  EXPECT_GT(block, 30);
}

TEST(Transaction, StepThatRunsOutOfMemoryIsReplayedBitForBit) { refuse_every_block({}, 2); }

TEST(Transaction, FirstStepOfAmsgradAndUnfusedRulesIsReplayed) {
  for (const OptimizerOptions& rule : std::span(kEveryRule).subspan(6, 5))
    refuse_every_block({.precision = Precision::kFp16, .optimizer = rule}, 1);
}

TEST(Transaction, ReplayWorksInFp16) { refuse_every_block({.precision = Precision::kFp16}, 2); }

TEST(Transaction, ReplayWorksInMicroBatches) {
  refuse_every_block({.batch_norm = false, .micro_batch = 3}, 2);
}

TEST(Transaction, ReplayWorksInTwoPasses) {
  refuse_every_block(
      {.precision = Precision::kFp16, .batch_norm = false, .micro_batch = 3, .two_pass = true}, 2);
}

TEST(Transaction, ReplayWorksWithActivationCheckpointing) {
  refuse_every_block({.recompute = true}, 2);
}

TEST(Transaction, LargerNetworkIsReplayedBitForBit) {
  refuse_every_block({.batch_norm = false, .is_tower = true}, 2, 29);
}

TEST(Transaction, PersistentFaultSplitsTheBatch) {
  refuse_every_block_twice({.batch_norm = false, .is_double = true}, Allow::kNothing,
                           "micro_batch 4", /*bits=*/false);
}

TEST(Transaction, PersistentFaultInALargerNetworkSplitsTheBatch) {
  refuse_every_block_twice({.batch_norm = false, .is_tower = true}, Allow::kExact, "micro_batch 4",
                           /*bits=*/false, 31);
}

TEST(Transaction, PersistentFaultInLayersThatMixSamplesRecomputesBlocksBitForBit) {
  refuse_every_block_twice({.batch_norm = true, .is_double = true}, Allow::kExact,
                           "the whole batch of 8, blocks recomputed", /*bits=*/true);
}

}  // namespace
}  // namespace stages
