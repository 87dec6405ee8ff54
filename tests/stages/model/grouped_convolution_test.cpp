#include "stages/model/convolution_layers.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "stages/numerics/precision_map.h"
#include "stages/plan/memory_trace.h"
#include "stages/plan/meta_kernels.h"
#include "tests/support/rounding.h"
#include "tests/support/scoped_threads.h"

namespace stages {
namespace {

using Tensors = std::vector<at::Tensor>;
constexpr auto kChannelsLast = torch::MemoryFormat::ChannelsLast;

at::Tensor random_maps(at::IntArrayRef shape, std::uint64_t seed) {
  return torch::randn(shape, at::detail::createCPUGenerator(seed));
}

struct Sizes {
  std::vector<std::int64_t> maps;
  std::int64_t of_group, stride;

  at::Tensor input() const { return random_maps(maps, 1).contiguous(kChannelsLast); }
  at::Tensor weight() const { return random_maps({maps[1], of_group, 3, 3}, 2); }
  std::string text() const {
    return std::to_string(maps[2]) + " by " + std::to_string(maps[3]) + ", stride " +
           std::to_string(stride);
  }
};

/// Sizes with fewer rows than a chunk, several chunks, or several and a remainder; with maps of a
/// single pixel, and maps as wide as the kernel.
const std::vector<Sizes> kSizes = {
    {{1, 16, 1, 1}, 4, 1},  {{2, 32, 9, 7}, 4, 1},  {{3, 48, 3, 2}, 4, 1},
    {{5, 16, 8, 3}, 4, 1},  {{2, 32, 9, 7}, 4, 2},  {{1, 16, 1, 2}, 4, 2},
    {{2, 32, 10, 6}, 8, 2}, {{3, 64, 23, 5}, 8, 2}, {{2, 16, 2, 1}, 8, 2}};

at::Tensor by_torch(const at::Tensor& maps, const at::Tensor& weight, std::int64_t stride) {
  return torch::conv2d(maps, weight, {}, stride, /*padding=*/1, /*dilation=*/1,
                       maps.size(1) / weight.size(1));
}

enum class OfWhat { kNumbers, kMagnitudes };

/// Returns the result and the gradients of maps and weight. For magnitudes, returns the sums of the
/// absolute values of the products.
template <typename Function>
Tensors grouped_with_gradients(const Function& function, const Sizes& sizes, at::ScalarType type,
                               OfWhat what = OfWhat::kNumbers) {
  const auto given = [&](const at::Tensor& one) {
    return (what == OfWhat::kNumbers ? one : one.abs()).to(type);
  };
  const at::Tensor maps = given(sizes.input()).requires_grad_(true),
                   weight = given(sizes.weight()).requires_grad_(true);
  const at::Tensor y = function(maps, weight, sizes.stride);
  Tensors result = torch::autograd::grad({y}, {maps, weight}, {given(random_maps(y.sizes(), 3))});
  result.insert(result.begin(), y.detach());
  return result;
}

TEST(GroupedConvolutionTest, ResultAndGradientsMatchTorch) {
  for (const Sizes& sizes : kSizes) {
    ASSERT_TRUE(can_convolve_groups(sizes.input(), sizes.weight(), sizes.stride)) << sizes.text();
    const Tensors expected = grouped_with_gradients(by_torch, sizes, torch::kDouble),
                  found = grouped_with_gradients(grouped_convolution, sizes, torch::kFloat),
                  magnitudes =
                      grouped_with_gradients(by_torch, sizes, torch::kDouble, OfWhat::kMagnitudes);
    // The number of terms of a sum: the channels of a group's kernel, or the pixels of all maps.
    const std::int64_t most_products =
        std::max(9 * sizes.of_group, sizes.maps[0] * sizes.maps[2] * sizes.maps[3]);
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_TRUE(is_rounded(found[i], expected[i], magnitudes[i], most_products))
          << sizes.text() << ": " << i;
    }
  }
}

TEST(GroupedConvolutionTest, WeightGradientDoesNotDependOnTheThreadCount) {
  const auto gradient = [](const Sizes& sizes, int threads) {
    const ScopedThreads some(threads);
    return grouped_with_gradients(grouped_convolution, sizes, torch::kFloat)[2];
  };
  for (const Sizes& sizes : kSizes) {
    for (const int threads : {2, 3})
      EXPECT_TRUE(gradient(sizes, threads).equal(gradient(sizes, 1))) << sizes.text();
  }
}

TEST(GroupedConvolutionTest, GradientHasTheLayoutOfTheWeight) {
  const Sizes sizes = kSizes[1];
  const auto gradient = [&](at::MemoryFormat format) {
    const at::Tensor weight = sizes.weight().contiguous(format).requires_grad_(true);
    return torch::autograd::grad(
        {grouped_convolution(sizes.input(), weight, sizes.stride).square().sum()}, {weight})[0];
  };
  const at::Tensor by_pixel = gradient(kChannelsLast),
                   by_row = gradient(torch::MemoryFormat::Contiguous);
  EXPECT_TRUE(by_pixel.is_contiguous(kChannelsLast));
  EXPECT_TRUE(by_row.is_contiguous());
  EXPECT_TRUE(by_pixel.equal(by_row));
}

TEST(GroupedConvolutionTest, OnlyTensorsThatRequireAGradientGetOne) {
  const at::Tensor maps = kSizes[1].input(), weight = kSizes[1].weight();
  for (const bool of_maps : {true, false}) {
    const at::Tensor x = maps.clone().requires_grad_(of_maps),
                     w = weight.clone().requires_grad_(!of_maps);
    grouped_convolution(x, w, 1).sum().backward();
    EXPECT_EQ(x.grad().defined(), of_maps);
    EXPECT_EQ(w.grad().defined(), !of_maps);
  }
}

TEST(GroupedConvolutionTest, PlanCountsTheOperationsOfTorch) {
  register_meta_kernels();
  const auto flops = [](const auto& function, bool of_maps, bool of_weight) {
    const MemoryTrace trace({.threads = 2});
    const at::TensorOptions outline(at::kMeta);
    const at::Tensor maps = torch::empty({2, 32, 9, 7}, outline.memory_format(kChannelsLast))
                                .requires_grad_(of_maps),
                     weight = torch::empty({32, 4, 3, 3}, outline).requires_grad_(of_weight);
    function(maps, weight, 1).sum().backward();
    return trace.flops();
  };
  for (const auto& [of_maps, of_weight] : {std::pair(true, true), {true, false}, {false, true}}) {
    EXPECT_EQ(flops(grouped_convolution, of_maps, of_weight), flops(by_torch, of_maps, of_weight))
        << of_maps << of_weight;
  }
}

TEST(GroupedConvolutionTest, SecondDerivativeIsRejected) {
  const at::Tensor maps = kSizes[1].input().requires_grad_(true);
  const at::Tensor y = grouped_convolution(maps, kSizes[1].weight(), 1).sum();
  EXPECT_THROW(torch::autograd::grad({y}, {maps}, {}, /*retain_graph=*/true, /*create_graph=*/true),
               std::logic_error);
}

TEST(GroupedConvolutionTest, AcceptsOnlyNarrowFloat32GroupsInChannelsLast) {
  const at::Tensor maps = kSizes[1].input(), fours = kSizes[1].weight(),
                   eights = random_maps({32, 8, 3, 3}, 2);
  EXPECT_TRUE(can_convolve_groups(maps, fours, 1));
  EXPECT_TRUE(can_convolve_groups(maps, eights, 2));
  EXPECT_FALSE(can_convolve_groups(maps, eights, 1)) << "oneDNN is faster";
  EXPECT_FALSE(can_convolve_groups(maps, random_maps({32, 16, 3, 3}, 2), 2));
  EXPECT_FALSE(can_convolve_groups(maps, random_maps({64, 4, 3, 3}, 2), 1))
      << "two outputs per channel";
  EXPECT_FALSE(can_convolve_groups(maps, random_maps({32, 4, 5, 3}, 2), 1));
  EXPECT_FALSE(can_convolve_groups(maps, random_maps({32, 4, 3, 5}, 2), 1));
  EXPECT_FALSE(can_convolve_groups(random_maps({2, 24, 9, 7}, 1).contiguous(kChannelsLast),
                                   random_maps({24, 4, 3, 3}, 2), 1));
  EXPECT_FALSE(can_convolve_groups(maps.contiguous(), fours, 1));
  EXPECT_FALSE(can_convolve_groups(maps.slice(0, 0, 0), fours, 1));
  EXPECT_FALSE(can_convolve_groups(maps.to(torch::kDouble), fours.to(torch::kDouble), 1));
  EXPECT_FALSE(can_convolve_groups(maps, fours.to(torch::kBFloat16), 1));
  const ScopedPrecision precision(Precision::kBf16, at::kCPU);
  EXPECT_FALSE(can_convolve_groups(maps, fours, 1));
}

}  // namespace
}  // namespace stages
