// What Retort reports about the memory of a GPU, and how it uses that memory.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "stages/machine/counting_allocator.h"
#include "stages/machine/memory_meter.h"
#include "stages/plan/block_recording.h"
#include "stages/plan/memory_budget.h"
#include "tests/support/stand_in/card_allocator.h"
#include "tests/support/test_device.h"
#include "tests/support/tiny_training.h"

namespace stand_in {
namespace {

const at::Device kCard(test_device()), kOther(at::kCUDA, kCard.index() == 0 ? 1 : 0);
constexpr std::int64_t kMebibyte = 1 << 20, kLarge = 64 * kMebibyte;

at::Tensor bytes(std::int64_t count) {
  return at::empty({count}, at::device(kCard).dtype(at::kByte));
}
std::int64_t reserved() { return stages::MemoryMeter(kCard).use().reserved; }

TEST(CardMemory, MeterCountsAllocatedBytesAndTheirPeak) {
  stages::MemoryMeter meter(kCard);
  const at::Tensor kept = bytes(kLarge);
  const std::int64_t before = meter.use().allocated;
  meter.peak_since_last();
  bytes(kLarge);
  EXPECT_GE(before, kLarge);
  EXPECT_EQ(meter.use().allocated, before) << "it is free again";
  EXPECT_EQ(meter.peak_since_last(), before + kLarge);
  EXPECT_EQ(meter.peak_since_last(), before);
}

TEST(CardMemory, EmptyingTheCacheReturnsUnusedMemory) {
  stages::empty_cache(kCard);
  const std::int64_t before = reserved();
  const at::Tensor kept = bytes(kLarge);
  bytes(2 * kLarge);
  EXPECT_EQ(reserved(), before + 3 * kLarge);
  stages::empty_cache(kCard);
  EXPECT_EQ(reserved(), before + kLarge);
}

TEST(CardMemory, FreeMemoryIsMeasuredPerCard) {
  const std::int64_t before = stages::device_memory(kCard).bytes;
  const at::Tensor there = at::empty({kLarge}, kOther);
  EXPECT_EQ(stages::device_memory(kCard).bytes, before);
}

TEST(CardMemory, BlocksOfItsCardAreRecorded) {
  stages::BlockRecording recording(kCard);
  const std::size_t place = recording.place();
  bytes(kMebibyte);
  at::empty({kMebibyte}, kOther);
  const stages::RecordedWork work = recording.since(place);
  ASSERT_EQ(work.storages.size(), 1);
  EXPECT_EQ(work.storages[0].bytes, kMebibyte);
}

TEST(CardMemory, BudgetIsALimitWhileItLives) {
  bytes(kMebibyte);
  const double before = card_allocator().share(kCard.index());
  {
    const stages::ScopedMemoryBudget budget(std::int64_t{2} << 30, kCard);
    EXPECT_LT(card_allocator().share(kCard.index()) * CardAllocator::kBytes, 2.0 * (1 << 30));
    EXPECT_THROW(bytes(std::int64_t{2} << 30), c10::OutOfMemoryError);
  }
  EXPECT_EQ(card_allocator().share(kCard.index()), before);
}

/// A training run on a GPU that empties the cache after every step, or never.
stages::TinyTraining& trained(stages::TinyTraining& training, std::int64_t empties_every) {
  training.context.facts.device = test_device();
  training.policy.empty_cache_every.steps = empties_every;
  training.options.log_every = 1;
  training.options.epochs = 1;
  training.run();
  return training;
}

TEST(CardMemory, TrainingLogsTheMemoryOfItsGpu) {
  stages::TinyTraining training;
  trained(training, 0);
  for (const char* name : {"memory/allocated", "memory/reserved", "memory/peak"})
    EXPECT_THAT(training.context.values(name),
                testing::AllOf(testing::Not(testing::IsEmpty()), testing::Each(testing::Gt(0))))
        << name;
}

TEST(CardMemory, CacheIsEmptiedAtTheRecipesInterval) {
  for (const std::int64_t every : {0, 1}) {
    stages::TinyTraining training;
    stages::empty_cache(kCard);
    bytes(kLarge);  // unused from now on
    const auto values = trained(training, every).context.values("memory/reserved");
    ASSERT_FALSE(values.empty());
    EXPECT_EQ(values.back() >= static_cast<double>(kLarge), every == 0) << every;
  }
}

}  // namespace
}  // namespace stand_in
