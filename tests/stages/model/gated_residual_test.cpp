#include "stages/model/bottleneck_network.h"

#include <limits>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>

#include "stages/plan/recorder.h"
#include "tests/support/rounding.h"
#include "tests/support/scoped_threads.h"

namespace stages {
namespace {

using Inputs = std::vector<at::Tensor>;
constexpr auto kByPosition = torch::MemoryFormat::ChannelsLast;

at::Tensor by_operators(const at::Tensor& maps, const at::Tensor& gate, const at::Tensor& added) {
  return (maps * gate + added).relu();
}

/// Maps, a gate and a shortcut for `images` images. The number of pixels is not a multiple of a
/// vector's width.
Inputs inputs(std::int64_t images, std::int64_t channels = 24,
              at::ScalarType type = torch::kFloat) {
  at::Generator generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(images));
  const auto random = [&](std::int64_t height, std::int64_t width) {
    return torch::randn({images, channels, height, width}, generator, torch::kDouble)
        .contiguous(kByPosition)
        .to(type);
  };
  return {random(13, 7), random(1, 1).sigmoid(), random(13, 7)};
}

/// Returns the gradients of all inputs, given the gradient of the result, `dy`.
Inputs gradients(at::Tensor (*function)(const at::Tensor&, const at::Tensor&, const at::Tensor&),
                 Inputs of, const at::Tensor& dy) {
  for (at::Tensor& one : of) one = one.detach().requires_grad_(true);
  return torch::autograd::grad({function(of[0], of[1], of[2])}, of, {dy});
}

/// Returns the exact gradients, except for rounding to 2^-53.
Inputs exact_gradients(Inputs of, const at::Tensor& dy) {
  for (at::Tensor& one : of) one = one.to(torch::kDouble);
  return gradients(by_operators, of, dy.to(torch::kDouble));
}

/// Checks whether `found` has, for each channel, the rounded sum over the pixels of a map.
bool is_rounded_gate(const at::Tensor& found, const at::Tensor& exact, const Inputs& of,
                     const at::Tensor& dy) {
  const at::Tensor magnitudes =
      (dy.to(torch::kDouble) * of[0].to(torch::kDouble)).abs().sum({2, 3}, true);
  return is_rounded(found, exact, magnitudes, of[0].size(2) * of[0].size(3));
}

at::Tensor slope_of(const Inputs& of) {
  return torch::randn_like(of[0], torch::kDouble).to(of[0].scalar_type());
}

TEST(GatedResidualTest, MatchesTorchBitForBit) {
  for (const std::int64_t images : {0, 1, 3, 5}) {
    const Inputs of = inputs(images);
    const at::Tensor expected = by_operators(of[0], of[1], of[2]);
    for (const int threads : {1, 2, 3}) {
      const ScopedThreads some(threads);
      const at::Tensor y = gated_residual(of[0], of[1], of[2]);
      EXPECT_TRUE(y.equal(expected)) << images << " images, " << threads << " threads";
      EXPECT_TRUE(y.is_contiguous(kByPosition));
    }
  }
}

TEST(GatedResidualTest, GradientsMatchTorch) {
  for (const std::int64_t images : {1, 3}) {
    const Inputs of = inputs(images);
    const at::Tensor dy = slope_of(of);
    const Inputs expected = gradients(by_operators, of, dy);
    const at::Tensor exact_gate = exact_gradients(of, dy)[1];
    for (const int threads : {1, 2, 3}) {
      const ScopedThreads some(threads);
      const Inputs found = gradients(gated_residual, of, dy);
      EXPECT_TRUE(found[0].equal(expected[0])) << threads << " threads";
      EXPECT_TRUE(found[2].equal(expected[2])) << threads << " threads";
      EXPECT_TRUE(is_rounded_gate(found[1], exact_gate, of, dy)) << threads << " threads";
    }
  }
}

TEST(GatedResidualTest, GradientsDoNotDependOnTheThreadCount) {
  const Inputs of = inputs(3);
  const at::Tensor dy = slope_of(of);
  const ScopedThreads one(1);
  const Inputs expected = gradients(gated_residual, of, dy);
  const ScopedThreads some(3);
  const Inputs found = gradients(gated_residual, of, dy);
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(found[i].equal(expected[i])) << i;
}

// The gradient of the last block comes from a mean over pixels, so all pixels share one value.
TEST(GatedResidualTest, AcceptsAGradientExpandedOverAllPixels) {
  const Inputs of = inputs(2);
  const at::Tensor dy = torch::randn({2, 24, 1, 1}).expand_as(of[0]);
  const Inputs found = gradients(gated_residual, of, dy),
               expected = gradients(by_operators, of, dy);
  EXPECT_TRUE(found[0].equal(expected[0]));
  EXPECT_TRUE(found[2].equal(expected[2]));
  EXPECT_TRUE(is_rounded_gate(found[1], exact_gradients(of, dy)[1], of, dy));
}

TEST(GatedResidualTest, AcceptsOtherLayoutsAndTypes) {
  for (const at::ScalarType type : {torch::kFloat, torch::kDouble, torch::kBFloat16}) {
    Inputs of = inputs(2, 24, type);
    for (at::Tensor& one : of) one = one.contiguous();
    const at::Tensor dy = slope_of(of);
    EXPECT_TRUE(gated_residual(of[0], of[1], of[2]).equal(by_operators(of[0], of[1], of[2])))
        << type;
    const Inputs found = gradients(gated_residual, of, dy),
                 expected = gradients(by_operators, of, dy);
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_TRUE(found[i].equal(expected[i])) << type << " " << i;
  }
}

TEST(GatedResidualTest, AcceptsAShortcutOfAnotherType) {
  const Inputs of = inputs(2);
  const at::Tensor narrow = of[0].to(torch::kBFloat16);
  EXPECT_TRUE(gated_residual(narrow, of[1], of[2]).equal(by_operators(narrow, of[1], of[2])));
  EXPECT_TRUE(gated_residual(of[0], of[1], narrow).equal(by_operators(of[0], of[1], narrow)));
}

TEST(GatedResidualTest, PropagatesNaN) {
  Inputs of = inputs(1);
  of[0][0][3][5][2] = std::numeric_limits<float>::quiet_NaN();
  const at::Tensor y = gated_residual(of[0], of[1], of[2]);
  EXPECT_TRUE(y[0][3][5][2].isnan().item<bool>());
  EXPECT_EQ(y.isnan().sum().item<std::int64_t>(), 1);
}

TEST(GatedResidualTest, SavesTheMapsTheGateAndTheResult) {
  Inputs of = inputs(2);
  for (at::Tensor& one : of) one.requires_grad_(true);
  std::vector<const void*> kept;
  const ScopedSavedTensors saved(
      [&kept](const at::Tensor& tensor) { kept.push_back(tensor.const_data_ptr()); });
  const at::Tensor y = gated_residual(of[0], of[1], of[2]);
  EXPECT_EQ(kept,
            (std::vector{of[0].const_data_ptr(), of[1].const_data_ptr(), y.const_data_ptr()}));
}

TEST(GatedResidualTest, SecondDerivativeIsRejected) {
  Inputs of = inputs(1);
  for (at::Tensor& one : of) one.requires_grad_(true);
  const at::Tensor y = gated_residual(of[0], of[1], of[2]).sum();
  EXPECT_THROW(torch::autograd::grad({y}, of, {}, /*retain_graph=*/true, /*create_graph=*/true),
               std::logic_error);
}

}  // namespace
}  // namespace stages
