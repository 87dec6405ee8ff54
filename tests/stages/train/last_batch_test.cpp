// A batch that is shorter than the others counts according to its size: its gradient is divided by
// that size, and an epoch's loss weighs it by that size.

#include <numeric>
#include <set>

#include <gmock/gmock.h>
#include <torch/types.h>

#include "stages/train/plan_training.h"
#include "stages/train/trainer.h"
#include "tests/support/distance.h"
#include "tests/support/refused.h"
#include "tests/support/tiny_training.h"

namespace stages {
namespace {

/// One step of plain gradient descent, which shows the size of the gradient, unlike Adam.
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

TEST(LastBatch, GradientOfUnequalMicroBatchesMatchesTheBatch) {
  TinyTraining in_parts = one_step(6, 16), whole = one_step(6, 6);
  in_parts.policy.micro_batch = 4;
  in_parts.run();
  whole.run();
  EXPECT_LT(distance(in_parts.flat_weights(), whole.flat_weights()), 1e-6);
}

TEST(LastBatch, EpochLossIsTheMeanOverItsSamples) {
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

/// A step with layers that mix samples, which records how many samples each batch had.
class MixingTinyStep final : public TinyStep {
 public:
  bool mixes_samples() const override { return true; }
  NamedTensors encode(torch::nn::Module& network, const Batch& part) const override {
    if (torch::GradMode::is_enabled()) seen.push_back(part.units());
    return TinyStep::encode(network, part);
  }
  mutable std::vector<std::int64_t> seen;
};

using Sizes = std::vector<std::int64_t>;

/// Returns the samples of each batch of two epochs.
Sizes batches_of(std::int64_t samples, const std::set<std::int64_t>& skipped = {}) {
  TinyTraining training;
  const MixingTinyStep step;
  training.train_data = std::make_shared<TinyDataset>(samples);
  training.train_data->skipped = skipped;
  training.options.epochs = 2;
  train(step, *training.network, {training.train_data, training.validation}, training.options,
        training.policy, training.context);
  return step.seen;
}

TEST(LastBatch, SingleSampleIsOmittedIfLayersMixSamples) {
  EXPECT_EQ(batches_of(18), (Sizes{8, 8, 2, 8, 8, 2}));
  EXPECT_EQ(batches_of(17), (Sizes{8, 8, 8, 8}));
  const auto leaves_out = [](const TrainingStep& step, std::int64_t samples) {
    return training_loader(TinyDataset(samples), step, /*batch_size=*/8).drop_last;
  };
  EXPECT_TRUE(leaves_out(MixingTinyStep(), 17));
  EXPECT_FALSE(leaves_out(MixingTinyStep(), 16));
  EXPECT_FALSE(leaves_out(MixingTinyStep(), 3));
  EXPECT_FALSE(leaves_out(TinyStep(), 17));
}

TEST(LastBatch, BatchWithOneReadableSampleIsAlsoOmitted) {
  std::set<std::int64_t> all_but_one;  // of a batch with all samples
  for (std::int64_t i = 1; i < 8; ++i) all_but_one.insert(i);
  TinyTraining training;
  const MixingTinyStep step;
  training.train_data = std::make_shared<TinyDataset>(8);
  training.train_data->skipped = all_but_one;
  EXPECT_REFUSED(train(step, *training.network, {training.train_data, training.validation},
                       training.options, training.policy, training.context),
                 kTooFewSamples, "");
  EXPECT_TRUE(step.seen.empty());
  EXPECT_THAT(
      training.context.said,
      testing::Contains(
          "samples left out because the rest of their batch cannot be read and layers mix the "
          "samples of a batch (BatchNorm): 1"));
}

TEST(LastBatch, DatasetWithOneSampleIsRejectedIfLayersMixSamples) {
  TinyTraining training;
  training.train_data = std::make_shared<TinyDataset>(1);
  EXPECT_REFUSED(
      train(MixingTinyStep(), *training.network, {training.train_data, training.validation},
            training.options, training.policy, training.context),
      kTooFewSamples, "/batch_size", "1 samples", "8");
}

}  // namespace
}  // namespace stages
