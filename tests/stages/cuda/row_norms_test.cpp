// The product uses no kernel from this folder; this test keeps the build rules for kernels working.

#include "tests/stages/cuda/row_norms.h"

#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

namespace {

std::vector<float> waves(std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = std::sin(0.37f * static_cast<float>(i));
  return values;
}

TEST(RowNorms, CpuReferenceIsCorrect) {
  const std::vector<float> values = waves(5 * 777);
  const std::vector<float> norms = squared_row_norms_on_cpu(values, 777);
  ASSERT_EQ(norms.size(), 5);
  for (std::size_t row = 0; row < norms.size(); ++row) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(777 * row);
    EXPECT_NEAR(norms[row], std::inner_product(begin, begin + 777, begin, 0.0), 1e-3) << row;
  }
}

TEST(RowNorms, KernelMatchesTheCpuReferenceBitForBit) {
  if (const std::string reason = no_gpu_because(); !reason.empty())
    GTEST_SKIP() << "no kernel can run: " << reason;
  for (const std::size_t width : {1, 127, 128, 1000}) {
    const std::vector<float> values = waves(33 * width);
    EXPECT_EQ(squared_row_norms_on_gpu(values, width), squared_row_norms_on_cpu(values, width))
        << width;
  }
}

TEST(RowNorms, EmptyInputGivesEmptyOutput) { EXPECT_TRUE(squared_row_norms_on_gpu({}, 3).empty()); }

}  // namespace
