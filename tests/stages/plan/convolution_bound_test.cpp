// Compares the convolution kernels of this processor with bounds that hold for all of them.

#include "stages/plan/convolution_bound.h"

#include <array>
#include <functional>
#include <random>
#include <string>
#include <utility>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "stages/machine/counting_allocator.h"
#include "stages/plan/memory_trace.h"
#include "stages/plan/meta_kernels.h"
#include "tests/support/scoped_threads.h"
#include "tests/support/traced_tower.h"

namespace stages::meta {
namespace {

/// Height and width of images and kernels.
using Pair = std::array<std::int64_t, 2>;

struct Convolution {
  std::int64_t batch = 1, in = 1, out = 1, groups = 1;
  Pair image = {1, 1}, kernel = {1, 1}, stride = {1, 1}, padding = {0, 0}, dilation = {1, 1};
  bool channels_last = false;
  at::ScalarType type = at::kFloat;
  int threads = 1;

  std::int64_t result(int side) const {
    const std::int64_t span =
        image[side] + 2 * padding[side] - dilation[side] * (kernel[side] - 1) - 1;
    return span < 0 ? 0 : span / stride[side] + 1;
  }
  std::string text() const {
    const auto pair = [](const Pair& of) {
      return std::to_string(of[0]) + " x " + std::to_string(of[1]);
    };
    return std::to_string(batch) + " images of " + pair(image) + ", " + std::to_string(in) +
           " to " + std::to_string(out) + " channels in " + std::to_string(groups) +
           " groups, kernel " + pair(kernel) + ", stride " + pair(stride) + ", padding " +
           pair(padding) + ", dilation " + pair(dilation) + ", " + c10::toString(type) + ", " +
           std::to_string(threads) + (channels_last ? " threads, channels_last" : " threads");
  }
};

class RandomConvolutions {
 public:
  Convolution next() {
    for (;;) {
      Convolution one{.batch = one_of({1, 2, 3, 4, 5, 8, 16, 32}),
                      .in = one_of({1, 3, 4, 8, 16, 20, 24, 32, 64, 96, 100, 128, 144, 256, 512}),
                      .out = one_of({1, 8, 16, 20, 24, 48, 64, 100, 128, 256, 512})};
      group(one);
      one.image = pair({1, 2, 4, 5, 7, 8, 14, 20, 28, 56, 112}, {1, 3, 6, 8, 17, 40, 100});
      one.kernel = pair({1, 1, 2, 3, 3, 3, 4, 5, 7, 9, 16}, {1, 2, 3, 5, 11});
      one.stride = pair({1, 1, 1, 2, 2, 3, 4, one.kernel[0]}, {1, 2, 3, 5});
      // Some oneDNN 3.10 implementations of other dilated kernels crash.
      if (one.kernel[0] == one.kernel[1] && one.kernel[0] > 1)
        one.dilation = pair({1, 1, 1, 2, 3}, {1, 2, 5});
      for (const int side : {0, 1}) {
        const std::int64_t kernel = one.kernel[side];
        one.padding[side] =
            one_of({0, kernel / 2, kernel / 2, kernel / 2 * one.dilation[side], kernel - 1});
      }
      one.channels_last = one_of({0, 1}) > 0;
      if (one_of({0, 0, 1}) > 0) one.type = at::kBFloat16;
      one.threads = static_cast<int>(one_of({1, 1, 2, 2, 3, 4, 8}));
      if (is_small(one)) return one;
    }
  }

 private:
  std::int64_t one_of(std::initializer_list<std::int64_t> choices) {
    return choices.begin()[engine_() % choices.size()];
  }
  /// Returns equal sides or, in a third of the cases, different ones.
  Pair pair(std::initializer_list<std::int64_t> sides, std::initializer_list<std::int64_t> widths) {
    const std::int64_t side = one_of(sides);
    return {side, one_of({0, 0, 1}) > 0 ? one_of(widths) : side};
  }
  /// Returns one group, some groups, one per channel, or one per channel with several outputs each.
  void group(Convolution& one) {
    switch (one_of({0, 0, 1, 2, 2, 3})) {
      case 1:
        one.groups = one.in % 4 == 0 ? one_of({2, 4}) : 1;
        if (one.in % 32 == 0) one.groups = one_of({8, 16, 32});
        one.out = one.groups * one_of({1, 2, 4, 8, 16, 17});
        break;
      case 2:
        one.groups = one.out = one.in;
        break;
      case 3:
        one.groups = one.in;
        one.out = one.in * one_of({2, 3});
        break;
      default:
        break;
    }
  }
  /// Small enough to be computed in milliseconds.
  static bool is_small(const Convolution& one) {
    constexpr std::int64_t kMostProducts = 5'000'000, kMostPixels = 1'000'000,
                           kMostWeights = 1'000'000;
    const std::int64_t area = one.result(0) * one.result(1),
                       weights = one.in / one.groups * one.out * one.kernel[0] * one.kernel[1];
    return area > 0 && one.batch * weights * area <= kMostProducts && weights <= kMostWeights &&
           one.batch * one.in * one.image[0] * one.image[1] <= kMostPixels &&
           one.batch * one.out * area <= kMostPixels;
  }

  std::mt19937_64 engine_{1};
};

/// A convolution on a device, and one of its gradients.
class Kernels {
 public:
  Kernels(const Convolution& one, at::Device device) : one_(one) {
    const auto format =
        one.channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
    const auto make = [&](at::IntArrayRef sizes) {
      const at::Tensor result =
          torch::empty(sizes, at::TensorOptions(device).dtype(one.type), format);
      return device.is_cpu() ? result.zero_() : result;
    };
    x_ = make({one.batch, one.in, one.image[0], one.image[1]});
    weight_ = make({one.out, one.in / one.groups, one.kernel[0], one.kernel[1]});
    dy_ = make({one.batch, one.out, one.result(0), one.result(1)});
  }
  void result() const {
    at::convolution(x_, weight_, {}, one_.stride, one_.padding, one_.dilation, false, kNone,
                    one_.groups);
  }
  void gradient(std::array<bool, 3> wanted) const {
    at::convolution_backward(dy_, x_, weight_, {}, one_.stride, one_.padding, one_.dilation, false,
                             kNone, one_.groups, wanted);
  }

 private:
  static constexpr Pair kNone = {0, 0};
  const Convolution one_;
  at::Tensor x_, weight_, dy_;
};

TEST(ConvolutionBound, NoKernelExceedsTheBound) {
  register_meta_kernels();
  const std::pair<const char*, std::function<void(const Kernels&)>> works[] = {
      {"result", [](const Kernels& kernels) { kernels.result(); }},
      {"input's gradient",
       [](const Kernels& kernels) {
         kernels.gradient({true, false, false});
       }},
      {"weight's gradient", [](const Kernels& kernels) {
         kernels.gradient({false, true, false});
       }}};
  RandomConvolutions random;
  for (int i = 0; i < 150; ++i) {
    const Convolution one = random.next();
    const ScopedThreads threads(one.threads);
    const Kernels on_cpu(one, at::kCPU), on_meta(one, at::kMeta);
    for (const auto& [name, work] : works) {
      const MemoryTrace trace({.threads = one.threads, .model = {}});
      work(on_meta);
      const CountingAllocator counter;
      work(on_cpu);
      EXPECT_LE(counter.peak_bytes(), peak_of(trace)) << name << " of " << one.text();
    }
  }
}

std::int64_t size_in_bytes(const at::Tensor& tensor) {
  return static_cast<std::int64_t>(tensor.nbytes());
}

ConvolutionShape three_by_three(std::int64_t threads) {
  return {.batch = 8,
          .in = 64,
          .out = 32,
          .kernel_height = 3,
          .kernel_width = 3,
          .padding = 1,
          .in_height = 14,
          .in_width = 14,
          .out_height = 14,
          .out_width = 14,
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

// A processor without AVX2 uses kernels of the other family for the convolutions of networks.
TEST(ConvolutionBound, DirectKernelsStoreFewerWeights) {
  ConvolutionShape shape = three_by_three(8);
  const std::int64_t of_any = weight_gradient_scratch(shape);
  shape.unfolds_images = false;
  EXPECT_LT(weight_gradient_scratch(shape), of_any / 2);
  EXPECT_LT(forward_scratch(shape), 8 * 64 * 3 * 3 * 14 * 14 * 4);
  const std::int64_t direct = weight_gradient_scratch(shape);
  shape.dilation = 2;
  EXPECT_GT(weight_gradient_scratch(shape), 2 * direct)
      << "few processors have a direct kernel for dilated kernels";
}

// A small convolution of another shape shows which kernels oneDNN uses.
TEST(ConvolutionBound, OneConvolutionPredictsOthers) {
  const at::Tensor x = torch::zeros({4, 64, 14, 14}), dy = torch::zeros({4, 128, 14, 14}),
                   weight = torch::zeros({128, 64, 3, 3});
  const CountingAllocator counter;
  at::convolution_backward(dy, x, weight, {}, {1, 1}, {1, 1}, {1, 1}, false, {0, 0}, 1,
                           {false, true, false});
  const std::int64_t without_copies = counter.peak_bytes() - size_in_bytes(x) - size_in_bytes(dy);
  const int threads = at::get_num_threads();
  EXPECT_EQ(without_copies > (threads + 2) * size_in_bytes(weight), onednn_unfolds_images());
}

TEST(ConvolutionBound, DirectKernelsPadChannelsToVectors) {
  ConvolutionShape shape = three_by_three(1);
  shape.channels_last = false;
  shape.in = 20;
  EXPECT_EQ(blocked_input(shape), 8 * 32 * 14 * 14 * 4);
  EXPECT_GE(blocked_weight(shape), 32 * 32 * 9 * 4);
  shape.in = 3;
  EXPECT_EQ(blocked_input(shape), 8 * 3 * 14 * 14 * 4) << "images are read unchanged";
}

TEST(ConvolutionBound, ChannelsLastImagesAreNotCopied) {
  EXPECT_EQ(blocked_input(three_by_three(1)), 0);
  EXPECT_EQ(blocked_result(three_by_three(1)), 0);
}

}  // namespace
}  // namespace stages::meta
