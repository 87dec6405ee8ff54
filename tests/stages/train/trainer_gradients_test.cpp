// Training steps with a loss or gradients that overflow, are broken or are clipped.

#include <algorithm>
#include <iterator>
#include <set>

#include <gmock/gmock.h>
#include <torch/types.h>

#include "stages/train/classification_loss.h"
#include "stages/train/trainer.h"
#include "tests/support/refused.h"
#include "tests/support/tiny_training.h"

namespace stages {
namespace {

using testing::ElementsAre;

/// A finite loss with an infinite gradient in some micro-batches, which are numbered over the whole
/// training run.
class HugeGradients final : public TinyStep {
 public:
  NamedTensors loss(const NamedTensors& encoded, const Batch& part) const override {
    const bool is_huge = always || huge_parts.contains(parts_++);
    const at::Tensor sum = cross_entropy_sum(encoded.at("logits"), part["label"], 0);
    const at::Tensor zero =
        (encoded.at("logits").to(torch::kFloat) * 0).abs().sqrt().sum();  // its slope is 0/0
    return {{"cross_entropy", is_huge ? sum + zero : sum}};
  }

  std::set<std::int64_t> huge_parts;
  bool always = false;

 private:
  mutable std::int64_t parts_ = 0;
};

TEST(TrainerGradients, OverflowInFp16SkipsTheWholeStepAndShrinksTheScale) {
  HugeGradients step;
  TinyTraining training;
  training.policy = {};
  training.policy.precision = Precision::kFp16;
  training.policy.micro_batch = 3;  // one overflow spoils the whole batch
  training.options.epochs = 1;
  training.options.gradient_clip_norm = 1.0;
  const at::Tensor before = training.flat_weights();
  step.huge_parts = {1, 4};  // one in the first and one in the second batch
  train(step, *training.network, {training.train_data, nullptr}, training.options, training.policy,
        training.context);
  EXPECT_THAT(training.context.values("train/loss_scale"), ElementsAre(65536, 32768, 16384, 16384));
  EXPECT_THAT(training.context.values("train/epoch_skipped_steps"), ElementsAre(2));
  EXPECT_THAT(training.context.steps("train/gradient_norm"), ElementsAre(3, 4));
  EXPECT_THAT(training.context.said,
              testing::Contains(testing::HasSubstr("2 steps skipped: gradients overflowed fp16")));
  EXPECT_TRUE(training.flat_weights().isfinite().all().item<bool>());
  EXPECT_FALSE(training.flat_weights().equal(before));
}

TEST(TrainerGradients, EndlessOverflowIsAnError) {
  HugeGradients step;
  step.always = true;
  TinyTraining training;
  training.policy.precision = Precision::kFp16;
  training.options.epochs = 100;
  const at::Tensor before = training.flat_weights();
  EXPECT_REFUSED(train(step, *training.network, {training.train_data, nullptr}, training.options,
                       training.policy, training.context),
                 kLossNotFinite, "/optimizer", "step 100");
  EXPECT_TRUE(training.flat_weights().equal(before));
}

TEST(TrainerGradients, BrokenSampleStopsBeforeAnythingIsWritten) {
  TinyTraining training;
  training.options.batch_size = 30;
  training.train_data->broken = {17};
  const at::Tensor before = training.flat_weights();
  const std::string message = training.error();
  EXPECT_EQ(training.code, runner::ErrorCode::kLossNotFinite);
  EXPECT_THAT(message,
              testing::MatchesRegex("the loss is not finite at step 1, in epoch 1, on "
                                    "'point[0-9]+', 'point[0-9]+', 'point[0-9]+' and 27 more"));
  EXPECT_TRUE(training.flat_weights().equal(before));
}

TEST(TrainerGradients, BrokenMicroBatchIsReportedWithItsSamples) {
  TinyTraining training;
  training.options.batch_size = 30;
  training.policy.micro_batch = 1;
  training.train_data->broken = {17};
  EXPECT_THAT(
      training.error(),
      testing::MatchesRegex(
          "the loss is not finite at step 1, in epoch 1, micro-batch [0-9]+ of 30, on 'point17'"));
}

TEST(TrainerGradients, InfiniteGradientOfAFiniteLossWritesNothing) {
  class SharpStep final : public TinyStep {
   public:
    NamedTensors loss(const NamedTensors& encoded, const Batch&) const override {
      return {{"cross_entropy", (encoded.at("logits") * 0).sqrt().sum()}};
    }
  };
  TinyTraining training;
  training.options.gradient_clip_norm = 1.0;
  const at::Tensor before = training.flat_weights();
  EXPECT_REFUSED(train(SharpStep(), *training.network, {training.train_data, nullptr},
                       training.options, training.policy, training.context),
                 kLossNotFinite, "/optimizer", "step 1, in epoch 1, on 'point",
                 "gradient_clip_norm");
  EXPECT_TRUE(training.flat_weights().equal(before));
}

TEST(TrainerGradients, DisproportionateLossIsReportedOncePerEpoch) {
  class LoudStep final : public TinyStep {
   public:
    NamedTensors loss(const NamedTensors& encoded, const Batch& part) const override {
      const at::Tensor sum = cross_entropy_sum(encoded.at("logits"), part["label"], 0);
      return {{"cross_entropy", part.indices.size() < 8 ? sum * 1e20 : sum}};
    }
  };
  TinyTraining training;
  training.options.epochs = 2;
  training.options.optimizer = SgdOptions{.learning_rate = 1e-30};
  train(LoudStep(), *training.network, {training.train_data, nullptr}, training.options,
        training.policy, training.context);
  std::vector<std::string> lines;
  std::ranges::copy_if(
      training.context.said, std::back_inserter(lines),
      [](const std::string& line) { return line.find("usual") != std::string::npos; });
  ASSERT_EQ(lines.size(), 2);
  EXPECT_THAT(lines[0],
              testing::MatchesRegex(
                  "step 4, in epoch 1: the loss is [0-9.]+e\\+(19|20) \\(usually [0-9.]+\\), "
                  "on 'point[0-9]+', 'point[0-9]+', 'point[0-9]+' and 3 more"));
  EXPECT_THAT(lines[1], testing::StartsWith("step 8, in epoch 2: the loss is "));
}

TEST(TrainerGradients, ClippedStepsReportTheNormBeforeClipping) {
  TinyTraining training;
  training.options.epochs = 1;
  training.options.optimizer = SgdOptions{.learning_rate = 1.0};
  training.options.batch_size = 30;
  training.options.gradient_clip_norm = 1e-3;
  training.validation = nullptr;
  const at::Tensor before = training.flat_weights();
  training.run();
  ASSERT_EQ(training.context.values("train/gradient_norm").size(), 1);
  EXPECT_GT(training.context.values("train/gradient_norm")[0], 0.01);
  EXPECT_NEAR((training.flat_weights() - before).norm().item<double>(), 1e-3, 1e-6);
}

TEST(TrainerGradients, LargeClippingLimitChangesNothing) {
  TinyTraining free, clipped;
  clipped.options.gradient_clip_norm = 1e6;
  free.run();
  clipped.run();
  EXPECT_TRUE(clipped.flat_weights().equal(free.flat_weights()));
}

}  // namespace
}  // namespace stages
