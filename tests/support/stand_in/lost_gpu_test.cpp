// Training runs on the stand-in with a GPU that fails.

#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include "stages/machine/device.h"
#include "tests/support/stand_in/counts.h"
#include "tests/support/stand_in/streams.h"
#include "tests/support/test_device.h"
#include "tests/support/tiny_training.h"

namespace stand_in {
namespace {

const at::Device kCard(test_device());

/// Makes the tests' GPU fail at its `nth` launch from now; destroying this object repairs it.
struct ScopedLoss {
  explicit ScopedLoss(std::int64_t nth) { streams().lose(kCard, nth); }
  ~ScopedLoss() { streams().lose(kCard, 0); }
  ScopedLoss(const ScopedLoss&) = delete;
  ScopedLoss& operator=(const ScopedLoss&) = delete;
};

/// A training run of a network with a buffer, which a repeated step would restore.
struct Trained : stages::TinyTraining {
  Trained() {
    network->register_buffer("spare", at::ones({4}));
    train_data->options.workers = validation->options.workers = 0;
    options.epochs = 1;
  }
};

TEST(LostGpu, EndsATrainingRunThatDoesNotUseItAgain) {
  const Counts before = counts();
  Trained().run();
  const std::int64_t launches = (counts() - before).launches;
  for (std::int64_t nth = 1; nth < launches; nth += 7) {
    SCOPED_TRACE(nth);
    Trained training;
    const ScopedLoss loss(nth);
    try {
      training.run();
      ADD_FAILURE() << "the training has not noticed it";
    } catch (const std::exception& error) {
      EXPECT_TRUE(stages::is_device_lost(error)) << error.what();
    }
    EXPECT_EQ(streams().launches_after_loss(), 0);
  }
}

TEST(LostGpu, HasNoFreeMemory) {
  at::ones({1}, kCard);
  ASSERT_TRUE(stages::free_device_bytes(kCard));
  const ScopedLoss loss(1);
  EXPECT_THROW(at::ones({1}, kCard), c10::AcceleratorError);
  EXPECT_FALSE(stages::free_device_bytes(kCard));
  const at::Device other(at::kCUDA, kCard.index() == 0 ? 1 : 0);
  EXPECT_TRUE(stages::free_device_bytes(other));
}

}  // namespace
}  // namespace stand_in
