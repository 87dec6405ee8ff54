#include "stages/train/trainer.h"

#include <algorithm>
#include <iterator>
#include <set>

#include <gmock/gmock.h>
#include <torch/types.h>

#include "runner/shared/stage/stage.h"
#include "stages/machine/counting_allocator.h"
#include "stages/train/classification_loss.h"
#include "stages/weights/safetensors.h"
#include "stages/weights/weights.h"
#include "tests/support/distance.h"
#include "tests/support/forwarded_dataset.h"
#include "tests/support/refused.h"
#include "tests/support/tiny_training.h"

namespace stages {
namespace {

using testing::ElementsAre;

/// A finite loss whose gradient is infinite in some micro-batches, counted over the whole training.
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

TEST(Trainer, OverflowInFp16SkipsTheWholeStepAndShrinksTheScale) {
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

TEST(Trainer, EndlessOverflowIsAnError) {
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

TEST(Trainer, MicroBatchesTrainTheSame) {
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

TEST(Trainer, BrokenSampleStopsBeforeAnythingIsWritten) {
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

TEST(Trainer, BrokenMicroBatchIsReportedWithItsSamples) {
  TinyTraining training;
  training.options.batch_size = 30;
  training.policy.micro_batch = 1;
  training.train_data->broken = {17};
  EXPECT_THAT(
      training.error(),
      testing::MatchesRegex(
          "the loss is not finite at step 1, in epoch 1, micro-batch [0-9]+ of 30, on 'point17'"));
}

TEST(Trainer, InfiniteGradientOfAFiniteLossWritesNothing) {
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

TEST(Trainer, DisproportionateLossIsReportedOncePerEpoch) {
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

TEST(Trainer, ClippedStepsReportTheNormBeforeClipping) {
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

TEST(Trainer, LargeClippingLimitChangesNothing) {
  TinyTraining free, clipped;
  clipped.options.gradient_clip_norm = 1e6;
  free.run();
  clipped.run();
  EXPECT_TRUE(clipped.flat_weights().equal(free.flat_weights()));
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

TEST(Trainer, CancelledRunStopsAfterTheStep) {
  TinyTraining training;
  training.context.on_progress = [&](const runner::Progress& progress) {
    training.context.is_cancelled = progress.step == 3;
  };
  EXPECT_THROW(training.run(), runner::Cancelled);
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
    if (++reads_ > samples_) throw runner::Cancelled{};
    return inner_->sample(epoch, index);
  }

 private:
  const int samples_;
  mutable int reads_ = 0;
};

TEST(Trainer, RunCancelledDuringReadingSavesItsSteps) {
  const auto saved = [](int training_samples, int validation_samples) {
    TinyTraining training;
    const auto data = std::make_shared<StoppedReading>(training.train_data, training_samples);
    const auto validation =
        std::make_shared<StoppedReading>(training.validation, validation_samples);
    EXPECT_THROW(train(training.step, *training.network, {data, validation}, training.options,
                       training.policy, training.context),
                 runner::Cancelled);
    const auto checkpoints = training.context.node().folder / "checkpoints";
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(checkpoints))
      if (entry.is_directory()) names.push_back(entry.path().filename());
    return names;
  };
  EXPECT_THAT(saved(16, 100), ElementsAre("step-00000002"));
  EXPECT_THAT(saved(100, 5), ElementsAre("step-00000004")) << "in the validation of the epoch";
}

TEST(Trainer, RunCancelledBeforeItsFirstStepSavesNothing) {
  TinyTraining training;
  training.context.is_cancelled = true;
  EXPECT_THROW(training.run(), runner::Cancelled);
  EXPECT_FALSE(std::filesystem::exists(training.context.node().folder / "checkpoints"));
}

TEST(Trainer, ValidationRestoresTrainingMode) {
  TinyTraining training;
  training.run();
  EXPECT_TRUE(training.network->is_training());
}

TEST(Trainer, ValidatesAtTheIntervalAndAtTheEnd) {
  TinyTraining training;
  training.options.epochs = 5;
  training.options.validate_every = 2;
  training.run();
  EXPECT_THAT(training.context.steps("validation/loss"), ElementsAre(8, 16, 20));
}

/// A training run with given validation losses: they replace the trainer's own measurement in each
/// epoch.
class ScriptedStep final : public TinyStep {
 public:
  NamedTensors loss(const NamedTensors& encoded, const Batch& part) const override {
    NamedTensors terms = TinyStep::loss(encoded, part);
    if (at::GradMode::is_enabled()) return terms;
    return {{"cross_entropy", torch::full({}, script.at(epoch) * static_cast<double>(part.units()),
                                          encoded.at("logits").options())}};
  }
  std::vector<double> script;
  std::size_t epoch = 0;
};

struct ScriptedTraining : TinyTraining {
  ScriptedStep scripted;
  TrainingResult run_script(std::vector<double> losses) {
    scripted.script = std::move(losses);
    context.on_progress = [this](const runner::Progress& progress) {
      scripted.epoch = static_cast<std::size_t>(progress.epoch - 1);
    };
    return train(scripted, *network, {train_data, validation}, options, policy, context);
  }
};

TEST(Trainer, KeepsTheWeightsOfTheBestEpoch) {
  ScriptedTraining best, two_epochs;
  const TrainingResult result = best.run_script({3, 1, 2, 2});
  EXPECT_EQ(result.epoch, 2);
  EXPECT_EQ(result.step, 8);
  EXPECT_EQ(result.file,
            best.context.node().folder / "checkpoints/step-00000008/model.safetensors");
  const Safetensors file = read_safetensors(result.file);
  EXPECT_EQ(file.metadata.at("epoch"), "2");
  EXPECT_EQ(file.metadata.at("step"), "8");
  EXPECT_EQ(file.metadata.at("classes"), R"(["class0","class1","class2"])");
  for (const auto& [name, tensor] : weights(*best.network))
    EXPECT_TRUE(tensor.cpu().equal(file.tensors.at(name))) << name;
  two_epochs.options.epochs = 2;
  two_epochs.run_script({3, 1});
  EXPECT_TRUE(best.flat_weights().equal(two_epochs.flat_weights()));
}

TEST(Trainer, KeepsTheLastWeightsIfConfigured) {
  ScriptedTraining training;
  training.options.keep = Keep::kLast;
  const TrainingResult result = training.run_script({3, 1, 2, 2});
  EXPECT_EQ(result.epoch, 4);
  EXPECT_EQ(result.file,
            training.context.node().folder / "checkpoints/step-00000016/model.safetensors");
  EXPECT_TRUE(std::filesystem::exists(training.context.node().folder /
                                      "checkpoints/step-00000008"));  // the best
  const Safetensors last = read_safetensors(result.file);
  for (const auto& [name, tensor] : weights(*training.network))
    EXPECT_TRUE(tensor.cpu().equal(last.tensors.at(name))) << name;
}

TEST(Trainer, StopsWhenPatienceIsExhausted) {
  ScriptedTraining training;
  training.options.patience = 2;
  training.options.epochs = 9;
  EXPECT_EQ(training.run_script({3, 1, 2, 2, 0, 0, 0, 0, 0}).epoch, 2);
  EXPECT_EQ(training.context.said.back(),
            "stopped after epoch 4: no better validation loss since epoch 2");
}

TEST(Trainer, PatienceCountsValidations) {
  TinyTraining training;
  training.options.epochs = 20;
  training.options.validate_every = 5;
  training.options.patience = 3;
  training.run();
  EXPECT_EQ(training.context.values("validation/loss").size(), 4U);
  EXPECT_EQ(training.context.values("train/epoch_loss").size(), 20U);
}

TEST(Trainer, PlateauOfTheValidationLowersTheRate) {
  ScriptedTraining training;
  training.options.epochs = 6;
  training.options.batch_size = 30;
  training.options.schedule = PlateauSchedule{.factor = 0.5, .patience = 1};
  training.run_script({3, 1, 2, 2, 2, 2});
  EXPECT_THAT(training.context.values("train/learning_rate"),
              ElementsAre(0.05, 0.05, 0.05, 0.05, 0.025, 0.025));
}

TEST(Trainer, PlateauFollowsTheDirectionOfTheMonitor) {
  TinyTraining training;
  training.options.epochs = 5;
  training.options.batch_size = 30;
  training.options.monitor = "accuracy";
  training.options.higher_is_better = true;
  training.options.optimizer = SgdOptions{.learning_rate = 1e-7};  // the accuracy does not change
  training.options.schedule = PlateauSchedule{.factor = 0.5, .patience = 0};
  training.run();
  EXPECT_THAT(training.context.values("train/learning_rate"),
              ElementsAre(1e-7, 1e-7, 5e-8, 2.5e-8, 1.25e-8));
}

TEST(Trainer, PlateauCountsValidationsNotEpochs) {
  ScriptedTraining training;
  training.options.epochs = 6;
  training.options.batch_size = 30;
  training.options.validate_every = 2;
  training.options.schedule = PlateauSchedule{.factor = 0.5, .patience = 0};
  training.run_script({9, 1, 9, 1, 9, 1});
  EXPECT_THAT(training.context.values("train/learning_rate"),
              ElementsAre(0.05, 0.05, 0.05, 0.05, 0.025, 0.025));
}

TEST(Trainer, PlateauWithoutValidationIsRejected) {
  TinyTraining training;
  training.validation = nullptr;
  training.options.schedule = PlateauSchedule{};
  EXPECT_REFUSED(training.run(), kOptionConflict, "/schedule", "plateau");
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

TEST(Trainer, LastEpochIsBestWithoutValidation) {
  TinyTraining training;
  training.validation = nullptr;
  const TrainingResult result = training.run();
  EXPECT_EQ(result.epoch, 4);
  EXPECT_EQ(result.file,
            training.context.node().folder / "checkpoints/step-00000016/model.safetensors");
  EXPECT_EQ(read_safetensors(result.file).metadata.at("epoch"), "4");
}

TEST(Trainer, PatienceWithoutValidationIsRejected) {
  TinyTraining training;
  training.validation = nullptr;
  training.options.patience = 3;
  EXPECT_REFUSED(training.run(), kOptionConflict, "/patience", "patience");
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
