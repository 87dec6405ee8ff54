// Training runs on the stand-in in which the GPU refuses a block.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "tests/support/stand_in/card_allocator.h"
#include "tests/support/test_device.h"
#include "tests/support/tiny_training.h"

namespace stand_in {
namespace {

const at::Device kCard(test_device());

/// A training run of a few steps, any of which may be repeated.
struct Repeatable : stages::TinyTraining {
  explicit Repeatable(const std::string& device) {
    context.facts.device = device;
    train_data = std::make_shared<TinyDataset>(24);
    train_data->options.workers = validation->options.workers = 0;
    options.epochs = 2;
    policy.recovery.max_retries.reset();
  }
  at::Tensor weights() {
    run();
    return flat_weights().cpu();
  }
};

TEST(RefusedBlocks, TrainingMatchesTheCpuBitForBit) {
  EXPECT_TRUE(Repeatable(test_device()).weights().equal(Repeatable("cpu").weights()));
}

TEST(RefusedBlocks, OnlyCauseARepetition) {
  Repeatable whole(test_device());
  const std::int64_t before = card_allocator().blocks_allocated();
  const at::Tensor expected = whole.weights();
  const std::int64_t blocks = card_allocator().blocks_allocated() - before;
  int recoveries = 0;
  for (std::int64_t nth = 1; nth < blocks; nth += 11) {
    SCOPED_TRACE(nth);
    Repeatable training(test_device());
    card_allocator().refuse(nth);
    try {
      EXPECT_TRUE(training.weights().equal(expected));
      recoveries += static_cast<int>(training.context.recoveries.size());
    } catch (const c10::OutOfMemoryError&) {
    } catch (const runner::StageError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("memory"));
    }
    card_allocator().refuse(0);
  }
  EXPECT_GT(recoveries, 10);
}

TEST(RefusedBlocks, UnusedMemoryIsReturnedBeforeARepetition) {
  constexpr std::int64_t kUnused = 64 << 20;
  const auto reserved = [] {
    return card_allocator().getDeviceStats(kCard.index()).reserved_bytes[0].current;
  };
  Repeatable training(test_device());
  at::empty({kUnused}, at::device(kCard).dtype(at::kByte));
  const std::int64_t before = reserved();
  card_allocator().refuse(1);
  training.run();
  EXPECT_EQ(training.context.recoveries.size(), 1) << "the network was moved again";
  EXPECT_LE(reserved(), before - kUnused);
}

TEST(RefusedBlocks, MemoryIsFreeAfterTraining) {
  const auto in_use = [] {
    return card_allocator().getDeviceStats(kCard.index()).allocated_bytes[0].current;
  };
  const std::int64_t before = in_use();
  Repeatable(test_device()).weights();
  EXPECT_EQ(in_use(), before);
}

}  // namespace
}  // namespace stand_in
