// Hundreds of steps take no more memory than a few do.

#include <map>

#include <gmock/gmock.h>
#include <torch/torch.h>

#include "stages/machine/counting_allocator.h"
#include "stages/machine/cpu_pool.h"
#include "stages/machine/memory_meter.h"
#include "tests/support/tiny_training.h"

namespace stages {
namespace {

constexpr std::int64_t kBatch = 8, kStepsOfEpoch = 300, kEpochs = 3, kWarm = 3;
constexpr std::int64_t kBetweenSaves = 41, kBetweenFaults = 57;

/// What is in use in the middle of a step, when its gradients are there and its weights are not yet written.
struct Use {
  std::int64_t live = 0, reserved = 0, resident = 0;
};

struct LongRun : TinyTraining {
  LongRun() {
    train_data = std::make_shared<TinyDataset>(kBatch * kStepsOfEpoch);
    train_data->options.workers = validation->options.workers = 0;
    options.epochs = kEpochs;
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
  std::int64_t recovered = 0, validated = 0, saved = 0;

 private:
  void see(const runner::Progress& progress) {
    saved += context.flushes;
    recovered += static_cast<std::int64_t>(context.recoveries.size());
    validated += progress.phase == "train" ? 0 : 1;
    // What this test remembers would grow itself.
    context.flushes = 0;
    context.recoveries.clear();
    context.metrics.clear();
    context.all_progress.clear();
    context.said.clear();
    context.details.clear();
    if (progress.phase != "train") return;
    uses[progress.step] = {counter_->live_bytes(), pool_->reserved(), kilobytes_field("/proc/self/status", "VmRSS")};
    if (progress.step % kBetweenFaults == 0) counter_->refuse(1 + progress.step % 29);  // of the next step
  }

  const CpuPool* pool_ = nullptr;
  CountingAllocator* counter_ = nullptr;
};

/// Expects that no step after the first few finds more in use than they did.
void expect_no_growth(const LongRun& one) {
  constexpr std::int64_t kSteps = kStepsOfEpoch * kEpochs;
  ASSERT_EQ(one.uses.size(), static_cast<std::size_t>(kSteps));
  EXPECT_EQ(one.recovered, kSteps / kBetweenFaults);
  EXPECT_GE(one.saved, kSteps / kBetweenSaves);
  EXPECT_GE(one.validated, kEpochs);
  const Use& warm = one.uses.at(kWarm);
  for (const auto& [step, use] : one.uses) {
    if (step > kWarm) ASSERT_EQ(use.live, warm.live) << "step " << step;
  }
  // A validation and a checkpoint may reserve more than a step, once.
  const std::int64_t after_an_epoch = one.uses.at(kStepsOfEpoch + 1).reserved;
  for (const auto& [step, use] : one.uses) {
    if (step > kStepsOfEpoch) ASSERT_EQ(use.reserved, after_an_epoch) << "step " << step;
  }
  // Half a kibibyte a step, which the smallest tensor takes with all that torch keeps of it.
  const std::int64_t resident = one.uses.at(kSteps).resident - one.uses.at(kStepsOfEpoch).resident;
  EXPECT_LE(resident, 512 * (kSteps - kStepsOfEpoch));
}

TEST(LongRun, DoesNotGrow) {
  LongRun one;
  one.measure();
  expect_no_growth(one);
}

TEST(LongRun, DoesNotGrowInMicroBatches) {
  LongRun one;
  one.policy.micro_batch = 3;
  one.measure();
  expect_no_growth(one);
}

TEST(LongRun, DoesNotGrowWithTheOptimizerInTheBackwardPass) {
  LongRun one;
  one.policy.optimizer_in_backward = true;
  // A fault there would end it; those of the other tests are in the backward pass too.
  one.context.on_progress = [&, then = one.context.on_progress](const runner::Progress& progress) {
    then(progress);
    if (auto* counter = CountingAllocator::innermost(); counter && progress.step % 57 == 0) counter->refuse(1);
  };
  one.measure();
  expect_no_growth(one);
}

}  // namespace
}  // namespace stages
