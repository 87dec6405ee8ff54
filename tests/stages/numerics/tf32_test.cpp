#include "stages/numerics/prepared_network.h"

#include <gmock/gmock.h>
#include <torch/types.h>

namespace stages {
namespace {

using at::Float32Op, at::Float32Precision;

std::vector<bool> allowed() {
  const auto is_tf32 = [](Float32Op op) {
    return at::globalContext().float32Precision(at::Float32Backend::CUDA, op) ==
           Float32Precision::TF32;
  };
  return {is_tf32(Float32Op::MATMUL), is_tf32(Float32Op::CONV), is_tf32(Float32Op::RNN)};
}

TEST(ScopedTf32, AppliesToProductsAndConvolutionsWithinTheScope) {
  const std::vector<bool> before = allowed();
  {
    const ScopedTf32 on(true);
    EXPECT_THAT(allowed(), testing::Each(true));
    {
      const ScopedTf32 off(false);
      EXPECT_THAT(allowed(), testing::Each(false));
    }
    EXPECT_THAT(allowed(), testing::Each(true));
  }
  EXPECT_EQ(allowed(), before);
}

TEST(ScopedTf32, IsRestoredAfterAnException) {
  const std::vector<bool> before = allowed();
  try {
    const ScopedTf32 on(!before[1]);
    throw std::runtime_error("leave");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(allowed(), before);
}

}  // namespace
}  // namespace stages
