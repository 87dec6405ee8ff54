#include "stages/model/normalize_batch.h"

#include <limits>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>

#include "stages/plan/recorder.h"
#include "tests/support/scoped_threads.h"

namespace stages {
namespace {

using Tensors = std::vector<at::Tensor>;
constexpr auto kByPixel = torch::MemoryFormat::ChannelsLast;

/// Maps with some channels, a weight, a bias and running statistics; the values of a channel are
/// close to `center`.
struct Inputs {
  at::Tensor maps, weight, bias, running_mean, running_var;

  BatchNormTensors tensors() const { return {weight, bias, running_mean, running_var}; }
  Inputs to(at::ScalarType type) const {
    const auto copy = [type](const at::Tensor& one) {
      return one.to(type, /*non_blocking=*/false, /*copy=*/true);
    };
    return {copy(maps), copy(weight), copy(bias), copy(running_mean), copy(running_var)};
  }
};

Inputs inputs(at::IntArrayRef shape, double center = 0.5) {
  at::Generator generator = at::detail::createCPUGenerator(11);
  const auto random = [&](at::IntArrayRef size) { return torch::randn(size, generator); };
  return {(random(shape) + center).contiguous(kByPixel), random(shape[1]), random(shape[1]),
          random(shape[1]), random(shape[1]).abs()};
}

/// Shapes with chunks of many pixels, of one pixel, or of a number that does not divide the total.
const std::vector<std::vector<std::int64_t>> kShapes = {
    {1, 3, 1, 2}, {2, 24, 61, 43}, {3, 1, 5, 7}, {2, 200, 23, 9}, {2, 40000, 1, 2}};

at::Tensor by_torch(const Inputs& of, bool has_relu) {
  const at::Tensor y = torch::batch_norm(of.maps, of.weight, of.bias, of.running_mean,
                                         of.running_var, /*training=*/true, kBatchNormMomentum,
                                         kBatchNormEpsilon, /*cudnn_enabled=*/false);
  return has_relu ? y.relu() : y;
}

void expect_within(const at::Tensor& found, const at::Tensor& expected, double tolerance,
                   const std::string& what) {
  const double scale = 1 + expected.abs().max().item<double>();
  EXPECT_LT((found.to(torch::kDouble) - expected).abs().max().item<double>(), tolerance * scale)
      << what;
}

/// Returns the gradients of maps, weight and bias.
template <typename Function>
Tensors gradients(const Function& function, Inputs of, const at::Tensor& dy) {
  for (at::Tensor* one : {&of.maps, &of.weight, &of.bias}) one->requires_grad_(true);
  return torch::autograd::grad({function(of)}, {of.maps, of.weight, of.bias}, {dy});
}

at::Tensor slopes(const Inputs& of) {
  at::Generator generator = at::detail::createCPUGenerator(12);
  return torch::randn(of.maps.sizes(), generator).contiguous(kByPixel);
}

TEST(NormalizeBatchTest, OutputsAndRunningStatisticsMatchTorch) {
  for (const auto& shape : kShapes) {
    for (const bool has_relu : {false, true}) {
      const Inputs of = inputs(shape), exact = of.to(torch::kDouble);
      const at::Tensor expected = by_torch(exact, has_relu);
      const at::Tensor y = normalize_batch(of.maps, of.tensors(), has_relu);
      const std::string what = std::to_string(shape[1]) + " channels";
      EXPECT_TRUE(y.is_contiguous(kByPixel)) << what;
      expect_within(y, expected, 1e-6, what);
      expect_within(of.running_mean, exact.running_mean, 1e-7, what);
      expect_within(of.running_var, exact.running_var, 1e-7, what);
    }
  }
}

TEST(NormalizeBatchTest, RunningStatisticsAreOptional) {
  const Inputs of = inputs({2, 24, 6, 4});
  EXPECT_TRUE(normalize_batch(of.maps, {of.weight, of.bias, {}, {}}, false)
                  .equal(normalize_batch(of.maps, of.tensors(), false)));
}

// Subtracting the squared mean from the mean of squares would lose this variance completely.
TEST(NormalizeBatchTest, SmallVarianceAroundALargeMeanIsPreserved) {
  const Inputs of = inputs({2, 24, 61, 43}, 3000);
  expect_within(normalize_batch(of.maps, of.tensors(), false),
                by_torch(of.to(torch::kDouble), false), 1e-3, "");
}

TEST(NormalizeBatchTest, GradientsMatchTorch) {
  for (const auto& shape : kShapes) {
    for (const bool has_relu : {false, true}) {
      const Inputs of = inputs(shape);
      const at::Tensor dy = slopes(of);
      const auto ours = [&](const Inputs& in) {
        return normalize_batch(in.maps, in.tensors(), has_relu);
      };
      const auto torchs = [&](const Inputs& in) { return by_torch(in, has_relu); };
      const Tensors found = gradients(ours, of.to(torch::kFloat), dy),
                    expected = gradients(torchs, of.to(torch::kDouble), dy.to(torch::kDouble));
      for (std::size_t i = 0; i < found.size(); ++i) {
        expect_within(found[i], expected[i], 1e-5,
                      std::to_string(shape[1]) + " channels, " + std::to_string(i));
      }
    }
  }
}

TEST(NormalizeBatchTest, ResultDoesNotDependOnTheThreadCount) {
  for (const auto& shape : kShapes) {
    const Inputs of = inputs(shape);
    const at::Tensor dy = slopes(of);
    const auto all = [&](int threads) {
      const ScopedThreads some(threads);
      const Inputs copy = of.to(torch::kFloat);
      const auto ours = [](const Inputs& in) {
        return normalize_batch(in.maps, in.tensors(), true);
      };
      Tensors result = gradients(ours, copy, dy);
      result.insert(result.end(), {ours(copy), copy.running_mean, copy.running_var});
      return result;
    };
    const Tensors expected = all(1);
    for (const int threads : {2, 3}) {
      const Tensors found = all(threads);
      for (std::size_t i = 0; i < found.size(); ++i)
        EXPECT_TRUE(found[i].equal(expected[i])) << shape[1] << " " << i;
    }
  }
}

TEST(NormalizeBatchTest, AcceptsAGradientExpandedOverAllPixels) {
  const Inputs of = inputs({2, 24, 6, 4});
  const at::Tensor dy = torch::randn({2, 24, 1, 1}).expand_as(of.maps);
  const auto ours = [](const Inputs& in) { return normalize_batch(in.maps, in.tensors(), true); };
  const Tensors found = gradients(ours, of, dy),
                expected = gradients(ours, of, dy.contiguous(kByPixel));
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(found[i].equal(expected[i])) << i;
}

TEST(NormalizeBatchTest, MapsWithoutRequiresGradGetNoGradient) {
  Inputs of = inputs({2, 24, 6, 4});
  of.weight.requires_grad_(true);
  normalize_batch(of.maps, of.tensors(), true).sum().backward();
  EXPECT_TRUE(of.weight.grad().defined());
  EXPECT_FALSE(of.maps.grad().defined());
}

TEST(NormalizeBatchTest, PropagatesNaN) {
  const Inputs of = inputs({2, 24, 6, 4});
  of.maps[1][3][5][2] = std::numeric_limits<float>::quiet_NaN();
  const at::Tensor y = normalize_batch(of.maps, of.tensors(), true);
  EXPECT_TRUE(y.select(1, 3).isnan().all().item<bool>());
  EXPECT_EQ(y.isnan().sum().item<std::int64_t>(), 2 * 6 * 4);
}

TEST(NormalizeBatchTest, SavesTheMapsButNotTheResult) {
  Inputs of = inputs({2, 24, 6, 4});
  of.maps.requires_grad_(true);
  std::vector<const void*> kept;
  const ScopedSavedTensors saved(
      [&kept](const at::Tensor& tensor) { kept.push_back(tensor.const_data_ptr()); });
  const at::Tensor y = normalize_batch(of.maps, of.tensors(), true);
  ASSERT_EQ(kept.size(), 2) << "the maps, and four numbers per channel";
  EXPECT_EQ(kept[0], of.maps.const_data_ptr());
  EXPECT_NE(kept[1], y.const_data_ptr());
}

TEST(NormalizeBatchTest, SecondDerivativeIsRejected) {
  Inputs of = inputs({2, 24, 6, 4});
  of.maps.requires_grad_(true);
  const at::Tensor y = normalize_batch(of.maps, of.tensors(), false).sum();
  EXPECT_THROW(
      torch::autograd::grad({y}, {of.maps}, {}, /*retain_graph=*/true, /*create_graph=*/true),
      std::logic_error);
}

TEST(NormalizeBatchTest, AcceptsOnlyFloat32MapsInChannelsLast) {
  const Inputs of = inputs({2, 24, 6, 4});
  EXPECT_TRUE(can_normalize_batch(of.maps, of.weight));
  EXPECT_FALSE(can_normalize_batch(of.maps.contiguous(), of.weight));
  EXPECT_FALSE(can_normalize_batch(of.maps.to(torch::kBFloat16), of.weight));
  EXPECT_FALSE(can_normalize_batch(of.maps, of.weight.to(torch::kDouble)));
  EXPECT_FALSE(can_normalize_batch(of.maps.select(2, 0).select(2, 0), of.weight));
  EXPECT_FALSE(can_normalize_batch(torch::ones({1, 24, 1, 1}), of.weight))
      << "a channel of one number has no variance";
  EXPECT_FALSE(can_normalize_batch(torch::ones({0, 24, 6, 4}), of.weight));
}

}  // namespace
}  // namespace stages
