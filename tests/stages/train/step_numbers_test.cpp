#include "stages/train/step_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "runner/shared/error/stage_error.h"
#include "tests/support/on_test_device.h"
#include "tests/support/tiny_dataset.h"

namespace stages {
namespace {

/// Measures `correct` of `count` samples as correct.
StepNumbers measured(std::int64_t correct, std::int64_t count) {
  StepNumbers numbers(static_cast<double>(count), count);
  numbers.add(numbers.row(
      {{"loss", torch::tensor(0.5 * static_cast<double>(count), here().dtype(at::kDouble))}},
      {{"accuracy", torch::tensor(correct, here())}}));
  numbers.fetch();
  return numbers;
}

/// Returns the ratio for 33 of 49 samples in batches of `size`; the correct samples come first.
double share_in_batches_of(std::int64_t size) {
  std::vector<StepNumbers> batches;
  std::int64_t left = 33;
  for (std::int64_t begin = 0; begin < 49; begin += size) {
    const std::int64_t count = std::min(size, 49 - begin), correct = std::min(left, count);
    batches.push_back(measured(correct, count));
    left -= correct;
  }
  return StepNumbers::means(batches).at("accuracy");
}

TEST(StepNumbers, EqualCountsGiveEqualRatiosForAnyBatchSizes) {
  for (std::int64_t size = 1; size <= 49; ++size)
    EXPECT_EQ(share_in_batches_of(size), 33.0 / 49) << size;
}

TEST(StepNumbers, BatchesAreWeighted) {
  std::vector<StepNumbers> batches;
  batches.push_back(measured(1, 1));
  batches.push_back(measured(0, 3));
  const Means means = StepNumbers::means(batches);
  EXPECT_EQ(means.at("accuracy"), 0.25);
  EXPECT_EQ(means.at("loss"), 0.5);
  EXPECT_EQ(means.weight, 4);
  EXPECT_EQ(means.units, 4);
}

/// Numbers of a step in two parts, before they are fetched.
StepNumbers of_two_parts(double second_loss, double accuracy, std::optional<double> norm,
                         std::optional<double> overflow) {
  StepNumbers numbers(2, 2);
  for (const double loss : {0.5, second_loss}) {
    numbers.add(numbers.row({{"loss", torch::tensor(loss, here().dtype(at::kDouble))}},
                            {{"accuracy", torch::tensor(accuracy, here().dtype(at::kDouble))}}));
  }
  if (norm) numbers.set_gradient_norm(torch::tensor(*norm, here().dtype(at::kFloat)));
  if (overflow)
    numbers.set_scaling(torch::tensor(2, here().dtype(at::kFloat)),
                        torch::tensor(*overflow, here().dtype(at::kFloat)));
  return numbers;
}

/// True if the step has failed. Expects the device and the host to agree on that.
bool fails(double second_loss, double accuracy, std::optional<double> norm,
           std::optional<double> overflow) {
  StepNumbers numbers = of_two_parts(second_loss, accuracy, norm, overflow);
  const at::Tensor on_device = numbers.failed(/*terms=*/1);
  numbers.fetch();
  bool is_refused = false;
  try {
    refuse_not_finite(numbers, {.epoch = 1, .step = 1}, TinyDataset(2));
  } catch (const runner::StageError&) {
    is_refused = true;
  }
  EXPECT_EQ(on_device.item<float>(), is_refused ? 1 : 0);
  return is_refused;
}

TEST(StepNumbers, DeviceAndHostAgreeOnFailure) {
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(fails(0.5, 1, {}, {}));
  EXPECT_TRUE(fails(nan, 1, {}, {}));
  EXPECT_TRUE(fails(infinity, 1, 1.0, 0.0));
  EXPECT_TRUE(fails(0.5, 1, infinity, {}));
  EXPECT_TRUE(fails(0.5, 1, nan, 0.0));
  EXPECT_TRUE(fails(nan, 1, infinity, 1.0));
}

TEST(StepNumbers, OverflowIsNotAFailure) {
  EXPECT_FALSE(fails(0.5, 1, std::numeric_limits<double>::infinity(), 1.0));
}

TEST(StepNumbers, NonFiniteScoreIsNotAFailure) { EXPECT_FALSE(fails(0.5, std::nan(""), 1, {})); }

}  // namespace
}  // namespace stages
