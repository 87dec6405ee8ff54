#include "stages/model/convolution_layers.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "tests/support/rounding.h"

namespace stages {
namespace {

using Tensors = std::vector<at::Tensor>;
constexpr auto kByPixel = torch::MemoryFormat::ChannelsLast;
constexpr auto kByRow = torch::MemoryFormat::Contiguous;

at::Tensor random(at::IntArrayRef shape, std::uint64_t seed) {
  return torch::randn(shape, at::detail::createCPUGenerator(seed));
}

/// Creates a layer with random parameters; those of a normalization are positive.
template <typename Layer, typename... Arguments>
std::shared_ptr<Layer> layer(const Arguments&... arguments) {
  const auto made = std::make_shared<Layer>(arguments..., at::TensorOptions());
  const torch::NoGradGuard no_graph;
  std::uint64_t seed = 5;
  for (at::Tensor& one : made->parameters()) one.copy_(random(one.sizes(), ++seed).abs());
  return made;
}

const std::vector<ConvolutionSizes> kConvolutions = {
    {.in = 24, .out = 40, .size = 1},
    {.in = 24, .out = 40, .size = 1, .has_bias = true},
    {.in = 24, .out = 40, .size = 1, .stride = 2},
    {.in = 24, .out = 40, .size = 1, .padding = 1},
    {.in = 24, .out = 40, .size = 1, .groups = 8},
    {.in = 24, .out = 40, .size = 3, .padding = 1, .has_bias = true},
    {.in = 24, .out = 48, .size = 3, .padding = 1, .groups = 6},
    {.in = 24, .out = 24, .size = 3, .padding = 1, .groups = 24},
    {.in = 32, .out = 32, .size = 3, .padding = 1, .groups = 8},
    {.in = 32, .out = 32, .size = 3, .padding = 1, .has_bias = true, .groups = 8},
    {.in = 32, .out = 32, .size = 3, .padding = 0, .groups = 8},
    {.in = 32, .out = 32, .size = 3, .stride = 2, .padding = 1, .groups = 4},
};

enum class Of { kNumbers, kMagnitudes };

/// Returns the result and the gradients of the input, the weight and the bias. For magnitudes,
/// returns the sums of the absolute values of the products.
template <typename Function>
Tensors with_gradients(const Function& function, const at::Tensor& x, const Convolution& like,
                       at::ScalarType type, Of what = Of::kNumbers) {
  const auto given = [&](const at::Tensor& one) {
    return (what == Of::kNumbers ? one : one.abs()).to(type);
  };
  Tensors of = {x, like.weight, like.bias};
  if (!like.bias.defined()) of.pop_back();
  for (at::Tensor& one : of) one = given(one.detach()).requires_grad_(true);
  const at::Tensor y = function(of[0], of[1], of.size() > 2 ? of[2] : at::Tensor());
  Tensors result = torch::autograd::grad({y}, of, {given(random(y.sizes(), 3))});
  result.insert(result.begin(), y.detach());
  return result;
}

/// The most products in a sum: the channels of a 3 x 3 kernel and a bias, or the pixels of three
/// padded maps.
constexpr std::int64_t kMostProducts = 9 * 48 + 1;
static_assert(kMostProducts > 3 * (7 + 2) * (5 + 2));

TEST(ConvolutionTest, MatchesTorchInBothLayouts) {
  for (const ConvolutionSizes& sizes : kConvolutions) {
    const auto convolution = layer<Convolution>(sizes);
    const auto ours = [&](const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
      convolution->weight = weight;
      convolution->bias = bias;
      return convolution->forward(x);
    };
    const auto torchs = [&](const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
      return torch::conv2d(x, weight, bias, sizes.stride, sizes.padding, 1, sizes.groups);
    };
    for (const auto format : {kByPixel, kByRow}) {
      const at::Tensor x = random({3, sizes.in, 7, 5}, 1).contiguous(format);
      const Convolution like = *convolution;
      const Tensors expected = with_gradients(torchs, x, like, torch::kDouble),
                    found = with_gradients(ours, x, like, torch::kFloat),
                    magnitudes = with_gradients(torchs, x, like, torch::kDouble, Of::kMagnitudes);
      const std::string what =
          "size " + std::to_string(sizes.size) + ", stride " + std::to_string(sizes.stride);
      EXPECT_TRUE(found[0].is_contiguous(format)) << what;
      for (std::size_t i = 0; i < found.size(); ++i) {
        EXPECT_TRUE(is_rounded(found[i], expected[i], magnitudes[i], kMostProducts))
            << what << ": " << i;
      }
    }
  }
}

TEST(ConvolutionTest, PointwiseConvolutionIsAMatrixProductInChannelsLast) {
  const auto convolution = layer<Convolution>(kConvolutions[1]);
  const at::Tensor x = random({3, 24, 7, 5}, 1);
  const at::Tensor rows =
      torch::linear(x.permute({0, 2, 3, 1}), convolution->weight.flatten(1), convolution->bias);
  EXPECT_TRUE(convolution->forward(x.contiguous(kByPixel)).equal(rows.permute({0, 3, 1, 2})));
}

TEST(ConvolutionTest, ChannelsLastWeightGetsAChannelsLastGradient) {
  const auto convolution = layer<Convolution>(kConvolutions[0]);
  convolution->weight.set_data(convolution->weight.contiguous(kByPixel));
  convolution->forward(random({3, 24, 7, 5}, 1).contiguous(kByPixel)).sum().backward();
  EXPECT_TRUE(convolution->weight.grad().is_contiguous(kByPixel));
}

TEST(ConvolutionTest, AcceptsHalfPrecision) {
  const auto convolution = layer<Convolution>(kConvolutions[1]);
  convolution->to(torch::kBFloat16);
  const at::Tensor x = random({3, 24, 7, 5}, 1).contiguous(kByPixel).to(torch::kBFloat16);
  EXPECT_EQ(convolution->forward(x).scalar_type(), torch::kBFloat16);
}

TEST(BatchNormTest, FusedReluMatchesTorchInEveryMode) {
  for (const auto statistics : {BatchNormStatistics::kCollected, BatchNormStatistics::kOfBatch,
                                BatchNormStatistics::kFixed}) {
    for (const bool is_training : {true, false}) {
      for (const auto format : {kByPixel, kByRow}) {
        for (const auto type : {torch::kFloat, torch::kDouble, torch::kBFloat16}) {
          const auto norm = layer<BatchNorm>(std::int64_t{24}, statistics);
          norm->train(is_training);
          norm->to(type);
          const at::Tensor x = random({3, 24, 7, 5}, 1).contiguous(format).to(type);
          EXPECT_TRUE(norm->forward_relu(x).equal(norm->forward(x).relu()))
              << is_training << " " << type;
        }
      }
    }
  }
}

// Torch's own layer adds up float32 numbers per thread, so its bits differ.
TEST(BatchNormTest, RunningStatisticsMatchTorch) {
  const auto norm = layer<BatchNorm>(std::int64_t{24}, BatchNormStatistics::kCollected);
  const at::Tensor x = random({3, 24, 7, 5}, 1).contiguous(kByPixel);
  at::Tensor mean = torch::zeros(24), var = torch::ones(24);
  for (int batch = 1; batch <= 3; ++batch) {
    const at::Tensor expected =
        torch::batch_norm(x * batch, norm->weight, norm->bias, mean, var, true, 0.1, 1e-5, false);
    EXPECT_TRUE(norm->forward(x * batch).allclose(expected, 1e-5, 1e-5));
    EXPECT_EQ(norm->named_buffers()["num_batches_tracked"].item<std::int64_t>(), batch);
    EXPECT_TRUE(norm->named_buffers()["running_mean"].allclose(mean, 1e-5, 1e-6));
    EXPECT_TRUE(norm->named_buffers()["running_var"].allclose(var, 1e-5, 1e-6));
  }
}

}  // namespace
}  // namespace stages
