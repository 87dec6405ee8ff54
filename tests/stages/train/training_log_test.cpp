#include "stages/train/training_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/recording_context.h"

namespace stages {
namespace {

using testing::ElementsAre;

StepRecord record(std::int64_t step) {
  return {.epoch = 1,
          .step = step,
          .samples = 32,
          .learning_rate = 3e-4,
          .means = {.weight = 32,
                    .loss = 1.0 / static_cast<double>(step),
                    .terms = {{"cross_entropy", 1.0}},
                    .scores = {{"accuracy", 0.25}}},
          .gradient_norm = 2.0};
}

TEST(TrainingLog, StepsAreRecordedAtTheIntervalAndAtTheEnd) {
  RecordingContext context;
  TrainingLog log(context,
                  {.epochs = 1,
                   .steps = 12,
                   .log_every = 5,
                   .unit = "images",
                   .budget_bytes = 0,
                   .memory_in_use = {}},
                  [] { return 0.0; });
  log.begin_epoch();
  for (std::int64_t step = 1; step <= 12; ++step) {
    log.step(record(step));
    log.progress(record(step));
  }
  EXPECT_THAT(context.steps("train/loss"), ElementsAre(1, 6, 11, 12));
  EXPECT_THAT(context.steps("train/accuracy"), ElementsAre(1, 6, 11, 12));
  EXPECT_THAT(context.values("train/gradient_norm"), ElementsAre(2, 2, 2, 2));
  EXPECT_THAT(context.steps("train/learning_rate"), ElementsAre(1, 6, 11, 12));
  EXPECT_TRUE(context.values("train/cross_entropy").empty());  // the loss has a single term
  EXPECT_EQ(context.all_progress.size(), 12);
}

TEST(TrainingLog, ProgressShowsSpeedAndTimeLeft) {
  RecordingContext context;
  double now = 100;
  TrainingLog log(context,
                  {.epochs = 2,
                   .steps = 8,
                   .log_every = 1,
                   .unit = "images",
                   .budget_bytes = 1000,
                   .memory_in_use = [] { return std::int64_t{600}; }},
                  [&] { return now; });
  log.begin_epoch();
  now += 2;
  log.step(record(1));
  log.progress(record(1));
  now += 2;
  log.step(record(2));
  log.progress(record(2));
  const runner::Progress& progress = context.all_progress.back();
  EXPECT_EQ(progress.phase, "train");
  EXPECT_EQ(progress.step, 2);
  EXPECT_EQ(progress.steps, 8);
  EXPECT_EQ(progress.epochs, 2);
  EXPECT_DOUBLE_EQ(progress.samples_per_second, 16);
  EXPECT_DOUBLE_EQ(progress.seconds_left, 12);
  EXPECT_DOUBLE_EQ(progress.loss, 0.5);
  EXPECT_EQ(progress.memory_bytes, 600);
  EXPECT_EQ(progress.budget_bytes, 1000);
}

TEST(TrainingLog, StepsThatFinishTogetherAreReportedTogether) {
  RecordingContext context;
  double now = 100;
  TrainingLog log(context,
                  {.epochs = 1,
                   .steps = 12,
                   .log_every = 4,
                   .unit = "images",
                   .budget_bytes = 0,
                   .memory_in_use = {}},
                  [&] { return now; });
  log.begin_epoch();
  for (const std::int64_t last : {4, 8}) {
    now += 2;
    for (std::int64_t step = last - 3; step <= last; ++step) log.step(record(step));
    log.progress(record(last));
  }
  ASSERT_EQ(context.all_progress.size(), 2);
  EXPECT_EQ(context.all_progress.back().step, 8);
  EXPECT_DOUBLE_EQ(context.all_progress.back().samples_per_second, 4 * 32 / 2);
  EXPECT_DOUBLE_EQ(context.all_progress.back().seconds_left, 2);
}

TEST(TrainingLog, EpochIsLoggedInOneLine) {
  RecordingContext context;
  double now = 0;
  TrainingLog log(context,
                  {.epochs = 10,
                   .steps = 30,
                   .log_every = 10,
                   .unit = "images",
                   .budget_bytes = 0,
                   .memory_in_use = {}},
                  [&] { return now; });
  log.begin_epoch();
  now = 0.5;
  log.step(record(3));
  log.progress(record(3));
  now = 100;  // validation does not count as training
  const Means training{.weight = 32,
                       .loss = 1.2345,
                       .terms = {{"cross_entropy", 1.2345}},
                       .scores = {{"accuracy", 0.456}}};
  const Means validation{
      .weight = 8, .loss = 1.5, .terms = {{"cross_entropy", 1.5}}, .scores = {{"accuracy", 0.5}}};
  log.end_epoch(record(3), training, 0, validation);
  log.end_epoch(record(3), training, 0, {});
  EXPECT_THAT(
      context.said,
      ElementsAre(
          "epoch 1/10  loss 1.234  accuracy 45.6%  | validation loss 1.500  accuracy 50.0%  | lr "
          "3.0e-04  | 64 images/s",
          "epoch 1/10  loss 1.234  accuracy 45.6%  | lr 3.0e-04  | 64 images/s"));
  EXPECT_THAT(context.values("train/epoch_loss"), ElementsAre(1.2345, 1.2345));
  EXPECT_THAT(context.values("train/epoch_accuracy"), ElementsAre(0.456, 0.456));
  EXPECT_THAT(context.values("validation/loss"), ElementsAre(1.5));
  EXPECT_THAT(context.values("validation/accuracy"), ElementsAre(0.5));
}

TEST(TrainingLog, EachLossTermIsAMetric) {
  RecordingContext context;
  TrainingLog log(context,
                  {.epochs = 1,
                   .steps = 1,
                   .log_every = 1,
                   .unit = "samples",
                   .budget_bytes = 0,
                   .memory_in_use = {}},
                  [] { return 0.0; });
  StepRecord two = record(1);
  two.means.terms = {{"variance", 0.25}, {"covariance", 0.75}};
  log.begin_epoch();
  log.step(two);
  EXPECT_THAT(context.values("train/variance"), ElementsAre(0.25));
  EXPECT_THAT(context.values("train/covariance"), ElementsAre(0.75));
}

TEST(EpochSoFar, RoundTripKeepsEverything) {
  EpochSoFar epoch;
  epoch.last = record(3);
  epoch.last.loss_scale = 1024;
  epoch.means = epoch.last.means;
  epoch.skipped_steps = 2;
  epoch.usual_loss = 2.5;
  const EpochSoFar back = epoch_so_far_from_json(nlohmann::json::parse(to_json(epoch).dump()));
  EXPECT_EQ(to_json(back), to_json(epoch));
  EXPECT_EQ(back.means.loss, epoch.means.loss);
  EXPECT_EQ(back.means.scores, epoch.means.scores);
  EXPECT_EQ(back.last.loss_scale, 1024);
}

TEST(EpochSoFar, InvalidStateReportsThePosition) {
  const auto refusal = [](const auto& change) -> std::string {
    EpochSoFar epoch;
    epoch.last = record(3);
    epoch.means = epoch.last.means;
    nlohmann::json json = to_json(epoch);
    change(json);
    try {
      epoch_so_far_from_json(json);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "read";
  };
  EXPECT_EQ(refusal([](auto& json) { json.erase("units"); }), "read");
  EXPECT_EQ(refusal([](auto& json) { json.erase("usual_loss"); }), "read");
  EXPECT_EQ(refusal([](auto& json) { json["last_step"] = 1.5; }),
            "the epoch so far has a 'last_step' that is not a count");
  EXPECT_EQ(refusal([](auto& json) { json["terms"][0] = "cross_entropy"; }),
            "the epoch so far has a 'terms' that is not a list of names with their numbers");
  EXPECT_EQ(refusal([](auto& json) { json["losses"] = 1; }),
            "the epoch so far has an unknown 'losses'");
  EXPECT_EQ(refusal([](auto& json) { json.erase("loss"); }), "the epoch so far has no 'loss'");
}

TEST(Throughput, IsUnknownBeforeASpanHasPassed) {
  Throughput throughput;
  EXPECT_EQ(throughput.per_second(), 0);
  throughput.add(5.0, 0);
  EXPECT_EQ(throughput.per_second(), 0);
  throughput.add(5.0, 32);
  EXPECT_EQ(throughput.per_second(), 0);
}

TEST(Throughput, CountsWorkSinceTheFirstMark) {
  Throughput throughput;
  throughput.add(5.0, 100);  // done earlier: not counted
  throughput.add(6.0, 32);
  throughput.add(7.0, 16);
  EXPECT_DOUBLE_EQ(throughput.per_second(), 24.0);
}

TEST(Throughput, ForgetsTheDistantPast) {
  Throughput throughput;
  for (int second = 0; second <= 100; ++second) throughput.add(second, second < 50 ? 1 : 10);
  EXPECT_DOUBLE_EQ(throughput.per_second(), 10.0);
}

}  // namespace
}  // namespace stages
