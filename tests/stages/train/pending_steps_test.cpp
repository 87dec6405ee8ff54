#include "stages/train/pending_steps.h"

#include <cmath>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include "tests/support/on_test_device.h"
#include "tests/support/recording_context.h"
#include "tests/support/tiny_dataset.h"

namespace stages {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// The pending steps of a training run with a device that runs ahead of the host.
struct RunningAhead {
  explicit RunningAhead(std::int64_t log_every)
      : log(context,
            {.epochs = 1,
             .steps = 1000,
             .log_every = log_every,
             .unit = "samples",
             .budget_bytes = 0,
             .memory_in_use = {}},
            [] { return 0.0; }),
        pending(data, {""}, log) {
    log.begin_epoch();
  }

  void add(double loss = 1, bool has_histograms = false) {
    StepNumbers numbers(1, 1);
    numbers.add(numbers.row({{"loss", torch::tensor(loss, here().dtype(at::kDouble))}}, {}));
    numbers.fetch();
    PendingStep step{.place = {.epoch = 1, .step = ++steps, .units = 1, .plan = {}, .indices = {}},
                     .numbers = std::move(numbers),
                     .rates = {{.learning_rate = 0.1, .momentum = {}}},
                     .generators = {}};
    if (has_histograms) step.histograms.emplace(NamedTensors(), std::vector<bool>(), nullptr);
    pending.add(std::move(step));
    pending.flush_due();
    pending.mark_written();
  }
  /// The latest step after each report.
  std::vector<std::int64_t> reported() const {
    std::vector<std::int64_t> reported;
    for (const runner::Progress& progress : context.all_progress) reported.push_back(progress.step);
    return reported;
  }

  RecordingContext context;
  TinyDataset data{2};
  TrainingLog log;
  PendingSteps pending;
  std::int64_t steps = 0;
};

TEST(PendingSteps, AreReadOneStepAfterAStepWithMetrics) {
  RunningAhead training(4);
  for (int step = 0; step < 10; ++step) training.add();
  EXPECT_THAT(training.reported(), ElementsAre(1, 5, 9));
  EXPECT_THAT(training.context.steps("train/loss"), ElementsAre(1, 5, 9));
  EXPECT_EQ(training.pending.epoch().means.weight, 9);
  training.pending.flush(0);
  EXPECT_THAT(training.reported(), ElementsAre(1, 5, 9, 10));
  EXPECT_EQ(training.pending.epoch().means.weight, 10);
  training.pending.flush(0);
  EXPECT_EQ(training.reported().size(), 4) << "there is nothing to report";
}

TEST(PendingSteps, AreReadOneStepAfterAStepWithHistograms) {
  RunningAhead training(1000);
  for (int step = 1; step <= 8; ++step) training.add(1, /*has_histograms=*/step == 5);
  EXPECT_THAT(training.reported(), ElementsAre(1, 5));
}

TEST(PendingSteps, AreAtMostAHundred) {
  RunningAhead training(100'000);
  for (int step = 0; step < 250; ++step) training.add();
  EXPECT_THAT(training.reported(), ElementsAre(1, 101, 201));
}

TEST(PendingSteps, FailureReportsItsStepAndUndoesThatStepAndLaterOnes) {
  torch::nn::Linear network(1, 1);
  const StepSnapshot before(*network, at::kCPU);
  RunningAhead training(5);
  for (const double loss : {1.0, 1.0, std::nan(""), 1.0, 1.0, 1.0}) training.add(loss);
  network->weight.mutable_grad() = at::ones({1, 1});
  training.pending.undo_unwritten(before);
  EXPECT_TRUE(network->weight.grad().defined()) << "no failure is known yet";
  EXPECT_THROW(training.add(), runner::StageError);
  EXPECT_THAT(training.context.steps("train/loss"), ElementsAre(1));
  training.pending.undo_unwritten(before);
  EXPECT_FALSE(network->weight.grad().defined());
}

}  // namespace
}  // namespace stages
