// A batch that is shorter than the others counts by its samples: its gradient is divided by its own size, and an
// epoch's loss weighs it by it.

#include <numeric>

#include <gmock/gmock.h>
#include <torch/types.h>

#include "stages/train/trainer.h"
#include "tests/support/distance.h"
#include "tests/support/tiny_training.h"

namespace stages {
namespace {

/// One step of plain gradient descent, which shows the gradient's size as Adam would not.
TinyTraining one_step(std::int64_t samples, std::int64_t batch_size) {
  TinyTraining training;
  training.train_data = std::make_shared<TinyDataset>(samples);
  training.options.epochs = 1;
  training.options.batch_size = batch_size;
  training.options.optimizer = SgdOptions{.learning_rate = 0.5};
  return training;
}

TEST(LastBatch, GradientIsDividedByItsOwnSize) {
  TinyTraining short_batch = one_step(6, 16), full_batch = one_step(6, 6);
  short_batch.run();
  full_batch.run();
  EXPECT_LT(distance(short_batch.flat_weights(), full_batch.flat_weights()), 1e-7);
}

TEST(LastBatch, GradientInPartsOfUnequalSizeIsThatOfTheBatch) {
  TinyTraining in_parts = one_step(6, 16), whole = one_step(6, 6);
  in_parts.policy.micro_batch = 4;
  in_parts.run();
  whole.run();
  EXPECT_LT(distance(in_parts.flat_weights(), whole.flat_weights()), 1e-6);
}

TEST(LastBatch, LossOfAnEpochIsTheMeanOverItsSamples) {
  TinyTraining training;
  training.options.epochs = 1;
  training.options.log_every = 1;
  training.run();
  const std::vector<double> losses = training.context.values("train/loss");
  ASSERT_EQ(losses.size(), 4u);  // of 8, 8, 8 and 6 samples
  const double by_samples = (8 * losses[0] + 8 * losses[1] + 8 * losses[2] + 6 * losses[3]) / 30;
  const double by_batches = std::accumulate(losses.begin(), losses.end(), 0.0) / 4;
  EXPECT_NEAR(training.context.values("train/epoch_loss").at(0), by_samples, 1e-6);
  EXPECT_GT(std::abs(by_samples - by_batches), 1e-5);
}

}  // namespace
}  // namespace stages
