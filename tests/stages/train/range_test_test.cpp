#include "stages/train/range_test.h"

#include <cmath>
#include <filesystem>
#include <limits>

#include <gmock/gmock.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "tests/support/tiny_training.h"

namespace stages {
namespace {

/// Passes losses to a test until it stops; returns their number.
std::int64_t show(RangeTest& test, const std::vector<double>& losses) {
  std::int64_t step = 0;
  try {
    for (const double loss : losses) {
      const NamedTensors seen = {{"loss", torch::tensor(loss, torch::kDouble)}};
      test.see({"train", ++step, "loss"}, "loss", seen.at("loss"));
    }
  } catch (const runner::Canceled&) {
  }
  return step;
}

TEST(RangeTest, SmoothsLikeFastai) {
  RangeTest test({1e-3, 1, 4});
  show(test, {2, 1, 3});
  const auto points = test.answer().at("points");
  ASSERT_EQ(points.size(), 3);
  EXPECT_DOUBLE_EQ(points[0].at("smoothed_loss"), 2);
  // 1 - 0.98^n loses as many digits as 1 / (1 - 0.98) has.
  constexpr double kRounding = 8 * std::numeric_limits<double>::epsilon() / (1 - 0.98);
  EXPECT_NEAR(points[1].at("smoothed_loss"), (0.98 * 2 + 1) / (0.98 + 1), kRounding);
  EXPECT_NEAR(points[2].at("smoothed_loss"),
              (0.98 * 0.98 * 2 + 0.98 * 1 + 3) / (0.98 * 0.98 + 0.98 + 1), kRounding);
}

TEST(RangeTest, RatesGrowExponentiallyFromTheFirstToTheLast) {
  RangeTest test({1e-3, 1, 4});
  show(test, {1, 1, 1, 1});
  std::vector<double> rates;
  const auto answer = test.answer();
  for (const auto& point : answer.at("points")) rates.push_back(point.at("learning_rate"));
  ASSERT_EQ(rates.size(), 4);
  EXPECT_DOUBLE_EQ(rates[0], 1e-3);
  EXPECT_DOUBLE_EQ(rates[1], 1e-2);
  EXPECT_DOUBLE_EQ(rates[3], 1);
}

TEST(RangeTest, StopsAfterItsSteps) {
  RangeTest test({1e-3, 1, 4});
  EXPECT_EQ(show(test, std::vector<double>(9, 1.0)), 4);
  EXPECT_EQ(test.answer().at("diverged"), false);
}

TEST(RangeTest, StopsWhenTheLossDiverges) {
  RangeTest test({1e-3, 1, 100});
  EXPECT_EQ(show(test, {1, 1, 20, 1}), 3);
  EXPECT_EQ(test.answer().at("diverged"), true);
}

TEST(RangeTest, SuggestsTheSteepestDescent) {
  // numpy.gradient of the values is [-1, -1.5, -2, -1.5, -0.5, 1].
  const std::vector<double> values = {9, 8, 6, 4, 3, 3, 5};
  EXPECT_EQ(steepest_descent(values, 0, 7), 2);
  EXPECT_EQ(steepest_descent(values, 3, 7), 3);
  EXPECT_EQ(steepest_descent({1, 2, 3}, 0, 3), -1);
  EXPECT_EQ(steepest_descent({1, 0}, 10, 1), -1);
}

TEST(RangeTest, TrainsWithTheGrowingRateAndSavesNothing) {
  RangeTest test({1e-6, 1e-2, 9});
  TinyTraining training;
  training.context.facts.observer = &test;
  training.options = test.begin(training.options, "/train", /*epoch_steps=*/4);
  EXPECT_EQ(training.options.epochs, 3);
  training.validation = nullptr;
  EXPECT_THROW(training.run(), runner::Canceled);
  const std::vector<double> rates = training.context.values("train/learning_rate");
  ASSERT_EQ(rates.size(), 9);
  EXPECT_NEAR(rates.front(), 1e-6, 1e-18);
  EXPECT_NEAR(rates.back(), 1e-2, 1e-14);
  EXPECT_EQ(test.answer().at("points").size(), 9);
  EXPECT_TRUE(std::filesystem::is_empty(training.context.node().folder));
}

TEST(RangeTest, GroupsKeepTheirRatios) {
  const Schedule range = RangeSchedule{.first_factor = 0.1, .last_factor = 10, .length = 3};
  const LearningRates rates(range, {1, 0.25}, 3, false);
  for (const std::int64_t step : {0, 1, 2}) {
    const std::vector<Rates> now = rates.at(step, 0);
    EXPECT_DOUBLE_EQ(now[1].learning_rate, 0.25 * now[0].learning_rate);
  }
}

}  // namespace
}  // namespace stages
