// Hundreds of steps need no more memory than a few.

#include <map>

#include <gmock/gmock.h>
#include <torch/types.h>

#include "stages/machine/counting_allocator.h"
#include "stages/machine/cpu_pool.h"
#include "tests/support/tiny_training.h"

namespace stages {
namespace {

constexpr std::int64_t kBatch = 8, kSteps = 220, kWarm = 20;
constexpr std::int64_t kBetweenSaves = 7, kBetweenFaults = 19;

/// The memory in use when a step is reported: its gradients exist, but its weights have not been
/// written yet.
struct Use {
  std::int64_t live = 0, reserved = 0;
};

/// One long epoch that saves checkpoints and in which steps run out of memory.
struct LongRun : TinyTraining {
  LongRun() {
    train_data = std::make_shared<TinyDataset>(kBatch * kSteps);
    train_data->options.workers = validation->options.workers = 0;
    options.epochs = 1;
    options.batch_size = kBatch;
    options.average = WeightAverageOptions{.decay = 0.9};
    options.checkpoint.every.steps = kBetweenSaves;
    policy.recovery.max_retries = 1;
    policy.recovery.on_oom = {OnOom::kReplan, OnOom::kStop};
    context.on_progress = [this](const runner::Progress& progress) { see(progress); };
  }

  void measure() {
    const CpuPool pool;
    CountingAllocator counter;
    pool_ = &pool;
    counter_ = &counter;
    run();
  }

  std::map<std::int64_t, Use> uses;  // by step
  std::int64_t recovered = 0, saved = 0;
  std::int64_t refused_blocks = 29;  // of a step, one after another

 private:
  void see(const runner::Progress& progress) {
    saved += context.flushes;
    recovered += static_cast<std::int64_t>(context.recoveries.size());
    context.flushes = 0;
    context.recoveries.clear();
    if (progress.phase != "train") return;
    uses[progress.step] = {counter_->live_bytes(), pool_->reserved()};
    if (progress.step % kBetweenFaults == 0)
      counter_->refuse(1 + progress.step % refused_blocks);  // of the next step
  }

  const CpuPool* pool_ = nullptr;
  CountingAllocator* counter_ = nullptr;
};

/// Expects the memory in use to be the same at every step after the first few.
void expect_no_growth(const LongRun& one) {
  ASSERT_EQ(one.uses.size(), static_cast<std::size_t>(kSteps));
  EXPECT_EQ(one.recovered, kSteps / kBetweenFaults);
  EXPECT_GE(one.saved, kSteps / kBetweenSaves);
  const Use& warm = one.uses.at(kWarm);
  EXPECT_GT(warm.live, 0);
  EXPECT_GE(warm.reserved, warm.live);
  for (const auto& [step, use] : one.uses) {
    if (step <= kWarm) continue;
    ASSERT_EQ(use.live, warm.live) << "step " << step;
    ASSERT_EQ(use.reserved, warm.reserved) << "step " << step;
  }
}

TEST(LongRun, MemoryDoesNotGrow) {
  LongRun one;
  one.measure();
  expect_no_growth(one);
}

TEST(LongRun, MemoryDoesNotGrowInMicroBatches) {
  LongRun one;
  one.policy.micro_batch = 3;
  one.measure();
  expect_no_growth(one);
}

TEST(LongRun, MemoryDoesNotGrowWithTheOptimizerInTheBackwardPass) {
  LongRun one;
  one.policy.optimizer_in_backward = true;
  one.refused_blocks = 1;  // a failure after a weight is written would end it
  one.measure();
  expect_no_growth(one);
}

}  // namespace
}  // namespace stages
