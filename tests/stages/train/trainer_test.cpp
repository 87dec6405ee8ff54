#include "stages/train/trainer.h"

#include <gmock/gmock.h>
#include <torch/types.h>

#include "runner/shared/stage/stage.h"
#include "stages/machine/counting_allocator.h"
#include "tests/support/distance.h"
#include "tests/support/forwarded_dataset.h"
#include "tests/support/refused.h"
#include "tests/support/tiny_training.h"

namespace stages {
namespace {

using testing::ElementsAre;

TEST(Trainer, BitsDependOnTheSeed) {
  const auto trained = [](std::uint64_t seed) {
    TinyTraining training;
    training.context.facts.seed = seed;
    training.run();
    return training.flat_weights();
  };
  const at::Tensor first = trained(1);
  EXPECT_TRUE(trained(1).equal(first));
  EXPECT_FALSE(trained(2).equal(first));
}

TEST(Trainer, LearnsTheTask) {
  TinyTraining training;
  training.options.epochs = 20;
  training.run();
  EXPECT_GT(training.context.values("validation/accuracy").back(), 0.99);
  EXPECT_LT(training.context.values("train/epoch_loss").back(),
            0.3 * training.context.values("train/epoch_loss").front());
}

TEST(Trainer, LearnsInEveryPrecision) {
  const auto last_accuracy = [](Precision precision) {
    TinyTraining training;
    training.options.epochs = 15;
    training.policy.precision = precision;
    training.run();
    EXPECT_EQ(training.context.values("train/loss_scale").empty(), precision != Precision::kFp16);
    return training.context.values("validation/accuracy").back();
  };
  const double reference = last_accuracy(Precision::kFp32);
  EXPECT_GT(reference, 0.9);
  EXPECT_NEAR(last_accuracy(Precision::kBf16), reference, 0.1);
  EXPECT_NEAR(last_accuracy(Precision::kFp16), reference, 0.1);
}

TEST(Trainer, PrecisionChangesTheBits) {
  TinyTraining full, half;
  half.policy.precision = Precision::kBf16;
  full.run();
  half.run();
  EXPECT_FALSE(full.flat_weights().equal(half.flat_weights()));
}

TEST(Trainer, MicroBatchesGiveTheSameResult) {
  TinyTraining whole, cut;
  cut.policy.micro_batch = 3;
  whole.run();
  cut.run();
  EXPECT_LT(distance(cut.flat_weights(), whole.flat_weights()), 1e-4);
}

TEST(Trainer, CoupledLossIsNotSplitSilently) {
  TinyTraining training;
  training.step.coupling = Coupling::kWholeBatch;
  training.policy.micro_batch = 3;
  EXPECT_REFUSED(training.run(), kOptionConflict, "/batch_size", "micro_batch 3", "batch of 8",
                 "'cross_entropy'");
}

TEST(Trainer, TwoPassesTrainAndValidateACoupledLossAsAWhole) {
  class SpreadStep final : public TinyStep {
   public:
    SpreadStep() { coupling = Coupling::kWholeBatch; }
    NamedTensors loss(const NamedTensors& encoded, const Batch& part) const override {
      const at::Tensor& logits = encoded.at("logits");
      const at::Tensor spread = (logits - logits.mean(0)).square().mean() * part.units();
      return {{"cross_entropy", TinyStep::loss(encoded, part).at("cross_entropy") + spread}};
    }
  };
  TinyTraining whole, cut;
  cut.policy.micro_batch = 3;
  cut.policy.two_pass = true;
  for (TinyTraining* one : {&whole, &cut})
    train(SpreadStep(), *one->network, {one->train_data, one->validation}, one->options,
          one->policy, one->context);
  EXPECT_LT(distance(cut.flat_weights(), whole.flat_weights()), 1e-4);
  for (const char* name : {"train/loss", "validation/loss"}) {
    const std::vector<double> expected = whole.context.values(name),
                              measured = cut.context.values(name);
    ASSERT_EQ(measured.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(measured[i], expected[i], 1e-4) << name << " " << i;
  }
}

TEST(Trainer, ScheduleIsCountedInSteps) {
  TinyTraining training;
  training.options.schedule = WarmupCosineSchedule{
      .warmup_steps = 4, .warmup_fraction = {}, .start_factor = 0, .min_learning_rate = 0};
  training.run();
  const std::vector<double> rates = training.context.values("train/learning_rate");
  ASSERT_EQ(rates.size(), 16);  // four epochs of four steps
  for (std::size_t step = 0; step < 16; ++step)
    EXPECT_EQ(rates[step], rates_at(training.options.schedule, 0.05,
                                    {.step = static_cast<std::int64_t>(step), .steps = 16})
                               .learning_rate);
}

TEST(Trainer, EpochScheduleAdvancesOncePerEpoch) {
  TinyTraining training;
  training.options.epochs = 3;
  training.options.schedule = ExponentialSchedule{0.5};
  training.run();
  EXPECT_THAT(training.context.values("train/learning_rate"),
              ElementsAre(0.05, 0.05, 0.05, 0.05, 0.025, 0.025, 0.025, 0.025, 0.0125, 0.0125,
                          0.0125, 0.0125));
}

TEST(Trainer, DropLastOmitsTheIncompleteBatch) {
  TinyTraining training;
  training.train_data->options.drop_last = true;
  training.run();
  EXPECT_EQ(training.context.all_progress.front().steps, 12);
  EXPECT_EQ(training.context.steps("train/loss").back(), 12);
}

TEST(Trainer, TooFewSamplesForABatchAreRejected) {
  TinyTraining training;
  training.train_data = std::make_shared<TinyDataset>(5);
  training.train_data->options.drop_last = true;
  EXPECT_REFUSED(training.run(), kTooFewSamples, "/batch_size", "5 samples", "batch of 8");
}

TEST(Trainer, SkippedSamplesAreCounted) {
  TinyTraining training;
  training.options.epochs = 1;
  training.train_data->skipped = {1, 2, 3};
  training.run();
  EXPECT_THAT(training.context.said,
              testing::Contains("samples skipped because they cannot be read: 3"));
}

TEST(Trainer, DataWithoutAReadableSampleIsAnError) {
  TinyTraining training;
  for (std::int64_t index = 0; index < 30; ++index) training.train_data->skipped.insert(index);
  EXPECT_REFUSED(training.run(), kTooFewSamples, "", "training samples");
  TinyTraining unvalidated;
  for (std::int64_t index = 0; index < 12; ++index) unvalidated.validation->skipped.insert(index);
  EXPECT_EQ(unvalidated.error(), "none of the validation samples could be read");
}

TEST(Trainer, SmokeRunHasTwoStepsAndTwoBatches) {
  TinyTraining training;
  training.context.facts.smoke = true;
  training.options.batch_size = 2;
  const TrainingResult result = training.run();
  EXPECT_EQ(result.step, 2);
  EXPECT_EQ(training.context.said.size(), 1);
  std::int64_t trained = 0, validated = 0;
  for (const runner::Progress& progress : training.context.all_progress)
    (progress.phase == "train" ? trained : validated) += 1;
  EXPECT_EQ(trained, 2);
  EXPECT_EQ(validated, 2);
  EXPECT_TRUE(std::filesystem::exists(result.file));
}

TEST(Trainer, CanceledRunStopsAfterTheStep) {
  TinyTraining training;
  training.context.on_progress = [&](const runner::Progress& progress) {
    training.context.is_canceled = progress.step == 3;
  };
  EXPECT_THROW(training.run(), runner::Canceled);
  EXPECT_EQ(training.context.all_progress.back().step, 3);
  EXPECT_TRUE(
      std::filesystem::exists(training.context.node().folder / "checkpoints/step-00000003"));
}

/// Cancels the run after some samples, while the next one is read.
class StoppedReading final : public ForwardedDataset {
 public:
  StoppedReading(std::shared_ptr<const Dataset> inner, int samples)
      : ForwardedDataset(std::move(inner)), samples_(samples) {}
  std::optional<NamedTensors> sample(std::int64_t epoch, std::int64_t index) const override {
    if (++reads_ > samples_) throw runner::Canceled{};
    return inner_->sample(epoch, index);
  }

 private:
  const int samples_;
  mutable int reads_ = 0;
};

TEST(Trainer, RunCanceledDuringReadingSavesItsSteps) {
  const auto saved = [](int training_samples, int validation_samples) {
    TinyTraining training;
    const auto data = std::make_shared<StoppedReading>(training.train_data, training_samples);
    const auto validation =
        std::make_shared<StoppedReading>(training.validation, validation_samples);
    EXPECT_THROW(train(training.step, *training.network, {data, validation}, training.options,
                       training.policy, training.context),
                 runner::Canceled);
    const auto checkpoints = training.context.node().folder / "checkpoints";
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(checkpoints))
      if (entry.is_directory()) names.push_back(entry.path().filename());
    return names;
  };
  EXPECT_THAT(saved(16, 100), ElementsAre("step-00000002"));
  EXPECT_THAT(saved(100, 5), ElementsAre("step-00000004")) << "during the validation of the epoch";
}

TEST(Trainer, RunCanceledBeforeItsFirstStepSavesNothing) {
  TinyTraining training;
  training.context.is_canceled = true;
  EXPECT_THROW(training.run(), runner::Canceled);
  EXPECT_FALSE(std::filesystem::exists(training.context.node().folder / "checkpoints"));
}

TEST(Trainer, ParameterGroupsHaveTheirOwnRates) {
  TinyTraining training;
  training.options.epochs = 1;
  training.options.batch_size = 30;
  training.options.optimizer = SgdOptions{.learning_rate = 0.1};
  training.options.schedule = ExponentialSchedule{0.5};
  ParameterGroupOptions slow{.name = "slow", .match = {"2.bias"}, .learning_rate_factor = 0.25};
  ParameterGroupOptions still{.name = "1", .match = {"0"}, .frozen = true};
  training.options.parameter_groups = {slow, still};
  const auto before = trained_parameters(*training.network);
  NamedTensors copies;
  for (const auto& [name, tensor] : before) copies.set(name, tensor.detach().clone());
  training.run();
  EXPECT_THAT(training.context.values("train/learning_rate"), ElementsAre(0.1));
  EXPECT_THAT(training.context.values("train/learning_rate/slow"), ElementsAre(0.025));
  EXPECT_TRUE(training.context.values("train/learning_rate/1").empty());
  EXPECT_THAT(training.context.said, testing::Contains(testing::HasSubstr("| lr 1.0e-01")));
  for (const char* name : {"0.weight", "0.bias"})
    EXPECT_TRUE(before.at(name).cpu().equal(copies.at(name))) << name;
  for (const char* name : {"2.weight", "2.bias"})
    EXPECT_FALSE(before.at(name).cpu().equal(copies.at(name))) << name;
}

/// Counts the blocks that each epoch allocates between the report of its last step, before a weight
/// is written, and the validation.
std::vector<std::int64_t> allocations_of_commits(const OptimizerOptions& optimizer,
                                                 Precision precision) {
  TinyTraining training;
  training.policy.precision = precision;
  training.options.optimizer = optimizer;
  training.options.gradient_clip_norm = 1e-3;
  training.options.batch_size = 15;
  training.validation->options.workers = training.train_data->options.workers = 0;
  const CountingAllocator counter;
  std::int64_t before = 0;
  std::vector<std::int64_t> result;
  training.context.on_progress = [&](const runner::Progress& progress) {
    if (progress.phase == "validate" && progress.step == 1)
      result.push_back(counter.allocations() - before);
    before = counter.allocations();
  };
  training.run();
  EXPECT_GT(counter.allocations(), 100);
  return result;
}

TEST(Trainer, CommitAllocatesNoMemory) {
  AdamOptions amsgrad = kAdamW;
  amsgrad.amsgrad = true;
  amsgrad.decoupled = false;
  const OptimizerOptions every[] = {
      kAdamW, amsgrad, SgdOptions{.learning_rate = 0.1},
      SgdOptions{.learning_rate = 0.1, .momentum = 0.9, .nesterov = true}};
  for (const OptimizerOptions& optimizer : every) {
    for (const Precision precision : {Precision::kFp32, Precision::kFp16})
      EXPECT_THAT(allocations_of_commits(optimizer, precision), ElementsAre(0, 0, 0, 0))
          << optimizer.index();
  }
}

TEST(Trainer, GradientsAreFreedAfterTraining) {
  TinyTraining training;
  training.run();
  for (const auto& [name, parameter] : trained_parameters(*training.network))
    EXPECT_FALSE(parameter.grad().defined()) << name;
}

}  // namespace
}  // namespace stages
