// Steps 1 … k, a stop, and steps k + 1 … n give the same bits as n steps without a stop.
#include <fstream>
#include <ostream>

#include <gmock/gmock.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/dropout.h>
#include <torch/types.h>

#include "tests/support/tiny_training.h"

namespace stages {
namespace {

using testing::HasSubstr;

using Change = std::function<void(TinyTraining&)>;
using Metric = std::tuple<std::string, double, std::int64_t>;

/// The results of a training run.
struct Outcome {
  at::Tensor weights;
  std::int64_t epoch = 0, step = 0;
  std::vector<Metric> metrics;
  std::vector<std::string> said;
};

/// The metrics without the GPU memory metrics, which depend on when the process started.
std::vector<Metric> without_memory(std::vector<Metric> metrics) {
  std::erase_if(metrics, [](const Metric& one) { return std::get<0>(one).starts_with("memory/"); });
  return metrics;
}

void expect_same(const Outcome& a, const Outcome& b) {
  EXPECT_TRUE(a.weights.equal(b.weights));
  EXPECT_EQ(a.epoch, b.epoch);
  EXPECT_EQ(a.step, b.step);
  EXPECT_EQ(a.metrics, b.metrics);
}

Outcome in_one_go(const Change& change) {
  TinyTraining training;
  change(training);
  const TrainingResult result = training.run();
  return {training.flat_weights(), result.epoch, result.step,
          without_memory(training.context.metrics), training.context.said};
}

/// Continues from what `before` left in its folder.
Outcome resumed(const TinyTraining& before, const Change& change) {
  TinyTraining training;
  change(training);
  training.context.facts.resuming = true;
  std::filesystem::copy(before.context.node().folder, training.context.node().folder,
                        std::filesystem::copy_options::recursive);
  torch::manual_seed(99);  // a new process starts with an arbitrary state
  const TrainingResult result = training.run();
  Outcome outcome{training.flat_weights(), result.epoch, result.step, {}, training.context.said};
  // Like retort, keeps only the metrics that were recorded before the checkpoint.
  const auto kept = before.context.metrics.begin();
  outcome.metrics.assign(kept, kept + training.context.resumed_at.value_or(0));
  outcome.metrics.insert(outcome.metrics.end(), training.context.metrics.begin(),
                         training.context.metrics.end());
  outcome.metrics = without_memory(std::move(outcome.metrics));
  return outcome;
}

struct Killed {};

/// A training run that is stopped, or killed, when it reports step `step` of a phase.
void break_off(TinyTraining& training, const std::string& phase, std::int64_t step, bool kill) {
  training.context.on_progress = [&training, phase, step, kill](const runner::Progress& progress) {
    if (progress.phase != phase || progress.step != step) return;
    if (kill) throw Killed{};
    training.context.is_canceled = true;
  };
  if (kill) EXPECT_THROW(training.run(), Killed);
  else EXPECT_THROW(training.run(), runner::Canceled);
}

void expect_the_same_when_stopped_at(const Change& change,
                                     std::initializer_list<std::int64_t> steps) {
  const Outcome whole = in_one_go(change);
  for (const std::int64_t step : steps) {
    SCOPED_TRACE("stopped at step " + std::to_string(step));
    TinyTraining stopped;
    change(stopped);
    break_off(stopped, "train", step, /*kill=*/false);
    expect_same(resumed(stopped, change), whole);
  }
}

struct Case {
  std::string name;
  Change change;
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

class EveryTraining : public testing::TestWithParam<Case> {};

TEST_P(EveryTraining, ContinuesToTheSameBits) {
  expect_the_same_when_stopped_at(GetParam().change, {1, 4, 6, 15});
}

Case optimizer(std::string name, OptimizerOptions options) {
  return {std::move(name),
          [options](TinyTraining& training) { training.options.optimizer = options; }};
}
Case schedule(std::string name, Schedule schedule) {
  return {std::move(name),
          [schedule](TinyTraining& training) { training.options.schedule = schedule; }};
}
Case with(std::string name, Change change) { return {std::move(name), std::move(change)}; }

std::vector<Case> every_case() {
  AdamOptions adam = kAdamW, amsgrad = kAdamW;
  adam.decoupled = false;
  amsgrad.amsgrad = true;
  WarmupCosineSchedule warmup;
  warmup.warmup_steps = 5;
  OneCycleSchedule one_cycle;
  one_cycle.pct_start = 0.3;
  one_cycle.div_factor = 25;
  one_cycle.final_div_factor = 1e4;
  one_cycle.cycle_momentum = true;
  one_cycle.base_momentum = 0.85;
  one_cycle.max_momentum = 0.95;
  return {
      optimizer("sgd", SgdOptions{.learning_rate = 0.1}),
      optimizer("momentum", SgdOptions{.learning_rate = 0.1, .momentum = 0.9}),
      optimizer("dampening", SgdOptions{.learning_rate = 0.1, .momentum = 0.9, .dampening = 0.5}),
      optimizer("nesterov",
                SgdOptions{
                    .learning_rate = 0.1, .momentum = 0.9, .nesterov = true, .weight_decay = 0.01}),
      optimizer("adam", adam),
      optimizer("adamw", kAdamW),
      optimizer("amsgrad", amsgrad),
      schedule("cosine", CosineSchedule{}),
      schedule("warmup_cosine", warmup),
      schedule("one_cycle", one_cycle),
      schedule("exponential", ExponentialSchedule{0.7}),
      schedule("step", StepSchedule{.step_size = 2, .gamma = 0.5}),
      schedule("multi_step", MultiStepSchedule{.milestones = {1, 3}, .gamma = 0.5}),
      schedule("cosine_restarts", CosineRestartsSchedule{.first_period = 1, .period_factor = 2}),
      schedule("warmup_linear", WarmupLinearSchedule{.warmup_steps = 5, .warmup_fraction = {}}),
      // No loss improves by that much, so the rate falls after each validation, or after every
      // second one.
      schedule("plateau", PlateauSchedule{.factor = 0.5, .patience = 0, .threshold = 0.99}),
      schedule("plateau_with_patience",
               PlateauSchedule{.factor = 0.5, .patience = 1, .threshold = 0.99}),
      with("bf16", [](TinyTraining& training) { training.policy.precision = Precision::kBf16; }),
      with("optimizer_in_backward",
           [](TinyTraining& training) {
             training.policy.optimizer_in_backward = true;
             training.options.average = WeightAverageOptions{.decay = 0.5};
           }),
      with("fp16", [](TinyTraining& training) { training.policy.precision = Precision::kFp16; }),
      with("parameter_groups",
           [](TinyTraining& training) {
             training.options.parameter_groups = {
                 {.name = "slow", .match = {"2.bias"}, .learning_rate_factor = 0.25},
                 {.name = "still", .match = {"0"}, .frozen = true}};
           }),
      with("numbers_that_libtorch_draws",
           [](TinyTraining& training) {
             torch::manual_seed(7);
             training.network =
                 torch::nn::Sequential(TinyLinear(2, 8, at::kCPU), torch::nn::Dropout(0.3),
                                       TinyLinear(8, 3, at::kCPU))
                     .ptr();
           }),
      with("clipping", [](TinyTraining& training) { training.options.gradient_clip_norm = 0.1; }),
      with("clipping_of_values",
           [](TinyTraining& training) { training.options.gradient_clip_value = 0.01; }),
      with("lion", [](TinyTraining& training) { training.options.optimizer = kEveryRule[7]; }),
      with("lamb", [](TinyTraining& training) { training.options.optimizer = kEveryRule[8]; }),
      with("adafactor", [](TinyTraining& training) { training.options.optimizer = kEveryRule[9]; }),
      with("muon", [](TinyTraining& training) { training.options.optimizer = kEveryRule[10]; }),
      with("gradual_unfreezing",
           [](TinyTraining& training) {
             training.options.parameter_groups = {
                 {.name = "late", .match = {"0"}, .frozen_epochs = 2}};
           }),
      with("micro_batches", [](TinyTraining& training) { training.policy.micro_batch = 3; }),
      with("skipped_samples",
           [](TinyTraining& training) {
             training.train_data->skipped = {3, 4, 5, 21};
           }),
      with("batches_without_a_sample",
           [](TinyTraining& training) {
             training.options.batch_size = 2;
             for (std::int64_t i = 0; i < 24; ++i) training.train_data->skipped.insert(i);
           }),
      with("patience",
           [](TinyTraining& training) {
             training.options.patience = 1, training.options.epochs = 6;
           }),
      with("keep_last", [](TinyTraining& training) { training.options.keep = Keep::kLast; }),
      with("without_validation", [](TinyTraining& training) { training.validation = nullptr; }),
      with("loader_threads",
           [](TinyTraining& training) { training.train_data->options.workers = 3; }),
  };
}

INSTANTIATE_TEST_SUITE_P(Resume, EveryTraining, testing::ValuesIn(every_case()),
                         [](const auto& info) { return info.param.name; });

const Change kAsItIs = [](TinyTraining&) {};

TEST(Resume, WorksAtEveryStep) {
  expect_the_same_when_stopped_at(kAsItIs, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15});
}

TEST(Resume, CountOfBadValidationsIsRestored) {
  const Change stuck = [](TinyTraining& training) {
    training.options.optimizer = SgdOptions{.learning_rate = 1e-30};
    training.options.epochs = 12;
    training.options.validate_every = 2;
    training.options.patience = 2;
  };
  EXPECT_THAT(in_one_go(stuck).said,
              testing::Contains("stopped after epoch 6: no better validation loss since epoch 2"));
  expect_the_same_when_stopped_at(stuck, {6, 9, 17, 22});
}

TEST(Resume, InterruptedValidationIsRepeated) {
  const Change small = [](TinyTraining& training) { training.options.batch_size = 4; };
  const Outcome whole = in_one_go(small);
  for (const std::int64_t batch : {1, 2, 3}) {
    TinyTraining stopped;
    small(stopped);
    break_off(stopped, "validate", batch, /*kill=*/false);
    expect_same(resumed(stopped, small), whole);
  }
}

TEST(Resume, KilledTrainingContinuesFromTheLatestCheckpoint) {
  const Change often = [](TinyTraining& training) { training.options.checkpoint.every.steps = 3; };
  const Outcome whole = in_one_go(often);
  for (const std::int64_t step : {1, 2, 3, 4, 7, 8, 12, 13, 16}) {
    SCOPED_TRACE("killed at step " + std::to_string(step));
    TinyTraining killed;
    often(killed);
    break_off(killed, "train", step, /*kill=*/true);
    expect_same(resumed(killed, often), whole);
  }
}

TEST(Resume, SavingOnRequestChangesNothing) {
  TinyTraining training;
  training.context.on_progress = [&](const runner::Progress& progress) {
    training.context.wants_save = progress.phase == "train" && progress.step == 6;
  };
  const TrainingResult result = training.run();
  expect_same({training.flat_weights(),
               result.epoch,
               result.step,
               without_memory(training.context.metrics),
               {}},
              in_one_go(kAsItIs));
  EXPECT_EQ(training.context.flushes, 5);  // four epochs, and the request
}

TEST(Resume, FinishedTrainingReturnsItsResult) {
  for (const Keep keep : {Keep::kBest, Keep::kLast}) {
    const Change change = [keep](TinyTraining& training) { training.options.keep = keep; };
    TinyTraining finished;
    change(finished);
    const TrainingResult first = finished.run();
    TinyTraining again;
    change(again);
    again.context.facts.resuming = true;
    std::filesystem::copy(finished.context.node().folder, again.context.node().folder,
                          std::filesystem::copy_options::recursive);
    const TrainingResult second = again.run();
    EXPECT_TRUE(again.flat_weights().equal(finished.flat_weights()));
    EXPECT_EQ(second.step, first.step);
    EXPECT_EQ(second.epoch, first.epoch);
    EXPECT_EQ(again.context.flushes, 0);
    EXPECT_TRUE(again.context.metrics.empty());
  }
}

TEST(Resume, DamagedCheckpointIsSkippedAndReported) {
  const Change often = [](TinyTraining& training) {
    training.options.checkpoint.every.steps = 2;
    training.options.checkpoint.keep_last = 2;
  };
  TinyTraining stopped;
  often(stopped);
  break_off(stopped, "train", 7, /*kill=*/false);
  const auto latest =
      stopped.context.node().folder / "checkpoints/step-00000007/optimizer.safetensors";
  ASSERT_TRUE(std::filesystem::exists(latest));
  std::filesystem::resize_file(latest, std::filesystem::file_size(latest) - 1);
  const Outcome outcome = resumed(stopped, often);
  EXPECT_THAT(outcome.said.front(), HasSubstr("is damaged: optimizer.safetensors has "));
  EXPECT_THAT(outcome.said.front(), HasSubstr("; an earlier checkpoint is used"));
  expect_same(outcome, in_one_go(often));
}

TEST(Resume, CheckpointFromAnotherTrainingIsRejected) {
  TinyTraining stopped;
  break_off(stopped, "train", 3, /*kill=*/false);
  TinyTraining other;
  other.options.optimizer = SgdOptions{.learning_rate = 0.1, .momentum = 0.9};
  other.context.facts.resuming = true;
  std::filesystem::copy(stopped.context.node().folder, other.context.node().folder,
                        std::filesystem::copy_options::recursive);
  EXPECT_THAT(
      other.error(),
      HasSubstr("step-00000003' does not match this training run: the optimizer's state has "));
  EXPECT_EQ(other.code, runner::ErrorCode::kChangedRun);
}

TEST(Resume, StartsOverWithoutACheckpoint) {
  TinyTraining nothing;
  expect_same(resumed(nothing, kAsItIs), in_one_go(kAsItIs));
}

}  // namespace
}  // namespace stages
