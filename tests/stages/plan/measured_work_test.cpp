#include "stages/plan/measured_work.h"

#include <utility>
#include <vector>

#include <gmock/gmock.h>

namespace stages {
namespace {

/// Work that creates a tensor of each size, each while the previous one is alive, and then frees
/// them all.
RecordedWork nested(const std::vector<std::int64_t>& sizes, Owner owner = Owner::kMeasured) {
  RecordedWork work;
  for (const std::int64_t size : sizes) {
    work.events.push_back({work.storages.size(), true, StepPhase::kForward, 0});
    work.storages.push_back({.bytes = size, .owner = owner});
  }
  for (std::size_t i = sizes.size(); i-- > 0;)
    work.events.push_back({i, false, StepPhase::kBackward, 0});
  return work;
}

TEST(MeasuredWork, TensorGrowthIsExtrapolated) {
  MeasuredWork work;
  for (const std::int64_t units : {1, 2, 3}) work.add(units, nested({100, 10 * units, 5 + units}));
  EXPECT_EQ(most_live(work.at(3)), 100 + 30 + 8);
  EXPECT_EQ(most_live(work.at(64)), 100 + 640 + 69);
}

TEST(MeasuredWork, SuperlinearTensorIsExtrapolatedQuadratically) {
  MeasuredWork work;
  for (const std::int64_t units : {1, 2, 3}) work.add(units, nested({4 * units * units}));
  EXPECT_EQ(most_live(work.at(30)), 4 * 30 * 30);
}

TEST(MeasuredWork, TensorThatStopsGrowingKeepsItsMaximum) {
  MeasuredWork work;
  work.add(1, nested({100}));
  work.add(2, nested({90}));
  work.add(3, nested({80}));
  EXPECT_GE(most_live(work.at(10)), 100);
}

TEST(MeasuredWork, PeakMovesWithMoreSamples) {
  // With one sample, the constant tensor is at the peak; with many samples, the other one is.
  MeasuredWork work;
  for (const std::int64_t units : {1, 2}) {
    RecordedWork run;
    run.storages = {{.bytes = 1000}, {.bytes = 50 * units}};
    run.events = {{0, true, StepPhase::kForward, 0},
                  {0, false, StepPhase::kForward, 0},
                  {1, true, StepPhase::kForward, 0},
                  {1, false, StepPhase::kForward, 0}};
    work.add(units, std::move(run));
  }
  EXPECT_EQ(most_live(work.at(2)), 1000);
  EXPECT_EQ(most_live(work.at(100)), 5000);
}

TEST(MeasuredWork, DifferingRunsAreScaledWithoutTheirGradients) {
  MeasuredWork work;
  RecordedWork one = nested({10});
  one.events.push_back({1, true, StepPhase::kBackward, 0});
  one.storages.push_back({.bytes = 1000, .owner = Owner::kGradient});
  work.add(1, one);
  RecordedWork two = nested({10, 15});
  two.events.push_back({2, true, StepPhase::kBackward, 0});
  two.storages.push_back({.bytes = 1000, .owner = Owner::kGradient});
  work.add(2, two);
  EXPECT_EQ(most_live(work.at(100)), 1000 + 1250);
}

TEST(MeasuredWork, SingleSampleRunMayDiffer) {
  MeasuredWork work;
  work.add(1, nested({7}));
  for (const std::int64_t units : {2, 3, 4}) work.add(units, nested({100, 10 * units}));
  EXPECT_EQ(most_live(work.at(1)), 7);
  EXPECT_EQ(most_live(work.at(64)), 740);
  EXPECT_EQ(work.allocations(8), (std::pair<double, double>(280, 2)));
}

TEST(MeasuredWork, SingleRunIsScaledExceptForItsGradients) {
  MeasuredWork work;
  work.add(2, nested({10}));
  EXPECT_EQ(most_live(work.at(6)), 30);
  MeasuredWork gradients;
  gradients.add(2, nested({10}, Owner::kGradient));
  EXPECT_EQ(most_live(gradients.at(6)), 10);
}

TEST(MeasuredHistory, LeftoverTensorsStayAlive) {
  MeasuredHistory history;
  history.keep({.bytes = 100, .owner = Owner::kParameter});
  RecordedWork leaves = nested({1000});
  leaves.events.pop_back();
  history.add(leaves);
  const std::size_t last = history.events();
  history.add(nested({5000}), /*extra=*/7);
  history.pass({.bytes = 20});
  const runner::MemoryPlan plan = history.plan(last, 4, {}, {});
  EXPECT_EQ(plan.live, 100 + 1000 + 5000 + 7);
  EXPECT_GT(plan.needed, plan.live + 600) << "a tenth of what was measured is added";
}

}  // namespace
}  // namespace stages
