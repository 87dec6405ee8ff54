#include "stages/random/launch_dropout.h"

#include <gtest/gtest.h>

#include "tests/stages/cuda/dropout_twins.h"
#include "tests/stages/cuda/row_norms.h"

namespace {

using stages::DropoutMask;
using stages::DropoutUnit;
using stages::FloatType;

TEST(LaunchDropout, KernelMatchesTheCpuBitForBit) {
  if (const std::string reason = no_gpu_because(); !reason.empty())
    GTEST_SKIP() << "no kernel can run: " << reason;
  for (const DropoutUnit unit : {DropoutUnit::kElement, DropoutUnit::kSample}) {
    const DropoutMask mask{
        .seed = 0x123456789abcdef0, .layer = 3, .probability = 0.3, .unit = unit};
    for (const FloatType type :
         {FloatType::kFloat32, FloatType::kFloat64, FloatType::kFloat16, FloatType::kBFloat16}) {
      for (const std::int64_t width : {1, 3, 4, 255, 100'003}) {
        const std::vector<std::int64_t> samples = {5, 0xFFFFFFFF, 0};
        EXPECT_EQ(dropout_on_gpu(mask, type, /*step=*/7, samples, width),
                  dropout_on_cpu(mask, type, /*step=*/7, samples, width))
            << width;
      }
    }
  }
}

}  // namespace
