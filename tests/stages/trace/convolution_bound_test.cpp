// Convolutions by the kernels of the processor that runs this, beside the bounds that hold for all.

#include "stages/trace/convolution_bound.h"

#include <array>
#include <random>
#include <string>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "stages/machine/counting_allocator.h"
#include "stages/trace/processor.h"
#include "tests/support/scoped_threads.h"

namespace stages::meta {
namespace {

/// Of squares.
struct Sides {
  std::int64_t in = 0, kernel = 0;
  ConvolutionShape shape;
};

class RandomConvolutions {
 public:
  Sides next() {
    for (;;) {
      ConvolutionShape shape{.batch = one_of({1, 2, 3, 4, 8, 16, 32}),
                             .in = one_of({3, 16, 20, 32, 64, 96, 128, 144, 256}),
                             .out = one_of({1, 16, 20, 24, 64, 128, 256})};
      const std::int64_t side = one_of({2, 4, 5, 7, 8, 14, 28, 56}), kernel = one_of({1, 1, 3, 3, 3, 5, 7, 16});
      shape.kernel_height = shape.kernel_width = kernel;
      shape.stride = one_of({1, 1, 2, kernel});
      shape.padding = kernel == 16 ? 0 : kernel / 2;
      shape.dilation = kernel == 3 ? one_of({1, 1, 1, 2}) : 1;
      if (shape.dilation > 1) shape.padding = 2;
      const bool is_grouped = shape.in % 4 == 0 && kernel > 1 && one_of({0, 0, 1}) > 0;
      if (is_grouped) shape.groups = one_of({4, shape.in});
      if (is_grouped) shape.out = shape.in;
      // As networks have them.
      if (shape.groups == shape.in && (shape.stride > 2 || shape.dilation > 1)) continue;
      const std::int64_t span = side + 2 * shape.padding - shape.dilation * (kernel - 1) - 1;
      if (span < 0) continue;
      const std::int64_t out_side = span / shape.stride + 1;
      shape.in_area = side * side;
      shape.area = out_side * out_side;
      shape.channels_last = one_of({0, 1}) > 0;
      shape.element_bytes = this_processor().bf16 ? one_of({4, 4, 2}) : 4;
      shape.threads = one_of({1, 2, 3, 8});
      constexpr std::int64_t kMostProducts = 30'000'000, kMostPixels = 4'000'000;
      if (shape.batch * shape.unfolded_elements() * shape.out > kMostProducts) continue;
      if (shape.batch * shape.in * shape.in_area > kMostPixels || !takes_onednn(shape)) continue;
      return {side, kernel, shape};
    }
  }

 private:
  std::int64_t one_of(std::initializer_list<std::int64_t> choices) {
    return choices.begin()[engine_() % choices.size()];
  }
  std::mt19937_64 engine_{1};
};

std::string text(const ConvolutionShape& shape) {
  return std::to_string(shape.batch) + " images of " + std::to_string(shape.in_area) + " pixels, " +
         std::to_string(shape.in) + " to " + std::to_string(shape.out) + " channels in " +
         std::to_string(shape.groups) + " groups, kernel " + std::to_string(shape.kernel_width) + ", stride " +
         std::to_string(shape.stride) + ", dilation " + std::to_string(shape.dilation) + ", " +
         std::to_string(shape.element_bytes) + " bytes, " + std::to_string(shape.threads) +
         (shape.channels_last ? " threads, channels_last" : " threads");
}

std::int64_t bytes(const at::Tensor& tensor) { return static_cast<std::int64_t>(tensor.nbytes()); }

/// What a kernel takes with its result.
template <typename Kernel>
std::int64_t counted(const Kernel& kernel) {
  const CountingAllocator counter;
  kernel();
  return counter.peak_bytes();
}

TEST(ConvolutionBound, NoKernelTakesMore) {
  RandomConvolutions random;
  for (int i = 0; i < 150; ++i) {
    const auto [side, kernel, shape] = random.next();
    const ScopedThreads threads(static_cast<int>(shape.threads));
    const auto format = shape.channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
    const auto make = [&, half = shape.is_half()](at::IntArrayRef sizes) {
      return torch::zeros(sizes, half ? at::kBFloat16 : at::kFloat).contiguous(format);
    };
    const at::Tensor x = make({shape.batch, shape.in, side, side}),
                     weight = make({shape.out, shape.in / shape.groups, kernel, kernel});
    const std::array<std::int64_t, 2> stride = {shape.stride, shape.stride}, padding = {shape.padding, shape.padding},
                                      dilation = {shape.dilation, shape.dilation}, none = {0, 0};
    at::Tensor dy;
    const std::int64_t forward = counted([&, groups = shape.groups] {
      dy = at::convolution(x, weight, {}, stride, padding, dilation, false, none, groups);
    });
    const auto gradient = [&, groups = shape.groups](std::array<bool, 3> wanted) {
      return counted(
          [&] { at::convolution_backward(dy, x, weight, {}, stride, padding, dilation, false, none, groups, wanted); });
    };
    const std::int64_t dx_copy = blocked_input_gradient(shape), y_copy = blocked_result(shape);
    EXPECT_LE(forward, bytes(dy) + y_copy + blocked_input(shape) + blocked_weight(shape) + forward_scratch(shape))
        << "result of " << text(shape);
    EXPECT_LE(gradient({true, false, false}),
              bytes(x) + 2 * dx_copy + y_copy + blocked_weight(shape) + input_gradient_scratch(shape))
        << "input's gradient of " << text(shape);
    EXPECT_LE(gradient({false, true, false}), 2 * bytes(weight) + blocked_input(shape) + y_copy +
                                                  blocked_weight_gradient(shape) + weight_gradient_scratch(shape))
        << "weight's gradient of " << text(shape);
  }
}

ConvolutionShape three_by_three(std::int64_t threads) {
  return {.batch = 8,
          .in = 64,
          .out = 32,
          .kernel_height = 3,
          .kernel_width = 3,
          .padding = 1,
          .in_area = 14 * 14,
          .area = 14 * 14,
          .channels_last = true,
          .threads = threads};
}

TEST(ConvolutionBound, EveryThreadMayUnfoldAnImage) {
  constexpr std::int64_t kUnfolded = 64 * 3 * 3 * 14 * 14 * 4;
  for (const std::int64_t threads : {1, 2, 8}) {
    const ConvolutionShape shape = three_by_three(threads);
    EXPECT_GE(forward_scratch(shape), threads * kUnfolded);
    EXPECT_GE(input_gradient_scratch(shape), threads * kUnfolded);
    EXPECT_GE(weight_gradient_scratch(shape), threads * (kUnfolded + shape.weight_elements() * 4));
  }
}

TEST(ConvolutionBound, DirectKernelsPadChannelsToVectors) {
  ConvolutionShape shape = three_by_three(1);
  shape.channels_last = false;
  shape.in = 20;
  EXPECT_EQ(blocked_input(shape), 8 * 32 * 14 * 14 * 4);
  EXPECT_GE(blocked_weight(shape), 32 * 32 * 9 * 4);
  shape.in = 3;
  EXPECT_EQ(blocked_input(shape), 8 * 3 * 14 * 14 * 4) << "pictures are read as they are";
}

TEST(ConvolutionBound, ImagesThatAreChannelsLastAreNotCopied) {
  EXPECT_EQ(blocked_input(three_by_three(1)), 0);
  EXPECT_EQ(blocked_result(three_by_three(1)), 0);
}

}  // namespace
}  // namespace stages::meta
