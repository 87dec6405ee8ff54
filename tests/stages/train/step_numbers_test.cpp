#include "stages/train/step_plan.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "tests/support/on_test_device.h"

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

}  // namespace
}  // namespace stages
