#include "stages/trace/onednn.h"

#include <gtest/gtest.h>

namespace stages::meta {
namespace {

/// One block of channels in and out, so that threads can only share the batch.
ConvolutionShape shape_of(std::int64_t batch) {
  return {
      .batch = batch, .in = 16, .out = 16, .kernel_height = 3, .kernel_width = 3, .in_area = 14 * 14, .area = 14 * 14};
}

TEST(OneDnn, EveryFurtherThreadAddsUpAGradientOfItsOwn) {
  constexpr std::int64_t kWeight = 16 * 16 * 3 * 3, kReduction = 2144;
  EXPECT_EQ(weight_gradient_scratch(shape_of(8), /*channels_last=*/false, {.threads = 1}), 0);
  EXPECT_EQ(weight_gradient_scratch(shape_of(8), /*channels_last=*/false, {.threads = 2}), kWeight + kReduction);
  EXPECT_EQ(weight_gradient_scratch(shape_of(8), /*channels_last=*/false, {.threads = 4}), 3 * kWeight + kReduction);
  EXPECT_EQ(weight_gradient_scratch(shape_of(1), /*channels_last=*/false, {.threads = 4}),
            0);  // one image is one thread's
}

}  // namespace
}  // namespace stages::meta
