#include "stages/contrastive/launch_pair_softmax.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "tests/stages/cuda/pair_softmax_twins.h"
#include "tests/stages/cuda/row_norms.h"

namespace {

/// Puts every third pair into one group.
std::vector<std::int64_t> groups_of(std::int64_t count) {
  std::vector<std::int64_t> group;
  for (std::int64_t i = 0; i < count; ++i) group.push_back(i % 3);
  return group;
}

using Numbers = std::vector<double> PairResults::*;
constexpr Numbers kAll[] = {&PairResults::row_largest,    &PairResults::row_sum,
                            &PairResults::column_largest, &PairResults::column_sum,
                            &PairResults::right,          &PairResults::by_scale,
                            &PairResults::gradients};

/// Returns the largest difference between two lists of numbers, relative to the largest number.
double difference(const std::vector<double>& one, const std::vector<double>& other) {
  double most = 0, largest = 1;
  for (std::size_t i = 0; i < one.size(); ++i) {
    most = std::isfinite(one[i]) ? std::max(most, std::abs(one[i] - other[i])) : INFINITY;
    largest = std::max(largest, std::abs(other[i]));
  }
  return most / largest;
}

TEST(LaunchPairSoftmax, KernelsMatchTheLoops) {
  if (const std::string reason = no_gpu_because(); !reason.empty())
    GTEST_SKIP() << "no kernel can run: " << reason;
  for (const bool is_double : {false, true}) {
    for (const std::int64_t count : {1, 31, 300}) {
      for (const std::vector<std::int64_t>& group :
           {std::vector<std::int64_t>(), groups_of(count)}) {
        for (const std::int64_t tile : {7, 128, 512}) {
          const PairResults gpu = pairs_on_gpu(count, group, tile, is_double);
          const PairResults cpu = pairs_on_cpu(count, group, tile, is_double);
          for (const Numbers each : kAll)
            EXPECT_LT(difference(gpu.*each, cpu.*each), is_double ? 1e-13 : 1e-4)
                << count << " " << tile;
          const PairResults again = pairs_on_gpu(count, group, tile, is_double);
          for (const Numbers each : kAll) EXPECT_EQ(gpu.*each, again.*each) << count << " " << tile;
        }
      }
    }
  }
}

// Checks the reference for the kernels, so that it is tested without a GPU too.
TEST(LaunchPairSoftmax, GradientsOfTheLoopsSumToZero) {
  for (const std::vector<std::int64_t>& group : {std::vector<std::int64_t>(), groups_of(31)}) {
    const PairResults cpu = pairs_on_cpu(31, group, 7, true);
    double sum = 0;
    for (const double one : cpu.gradients) sum += one;
    EXPECT_NEAR(sum, 0, 1e-11);
    EXPECT_GT(*std::ranges::max_element(cpu.gradients), 0.01);
  }
}

}  // namespace
