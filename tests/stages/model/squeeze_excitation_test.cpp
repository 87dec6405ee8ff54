#include "stages/model/convolution_layers.h"

#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

namespace stages {
namespace {

TEST(SqueezeExcitationTest, GateAndGradientMatchTorch) {
  for (const bool is_silu : {false, true}) {
    SqueezeExcitation block({.channels = 6, .squeezed = 4},
                            {.squeeze = "a", .excite = "b", .is_silu = is_silu}, torch::kDouble);
    torch::NoGradGuard no_gradient;
    for (at::Tensor& weight : block.parameters())
      weight.normal_(0, 1, at::detail::createCPUGenerator(7));
    const torch::OrderedDict<std::string, at::Tensor> weights = block.named_parameters();
    const auto by_operators = [&](const at::Tensor& maps) {
      const at::Tensor squeezed =
          torch::conv2d(maps.mean({2, 3}, true), weights["a.weight"], weights["a.bias"]);
      const at::Tensor active = is_silu ? torch::silu(squeezed) : torch::relu(squeezed);
      return torch::sigmoid(torch::conv2d(active, weights["b.weight"], weights["b.bias"]));
    };
    const torch::AutoGradMode gradient(true);
    const at::Tensor maps = torch::randn({3, 6, 5, 7}, torch::kDouble).requires_grad_(true);
    const at::Tensor expected = by_operators(maps), gate = block.forward(maps),
                     dy = torch::randn_like(gate);
    EXPECT_TRUE(gate.allclose(expected, 1e-12, 1e-12));
    const at::Tensor found = torch::autograd::grad({gate}, {maps}, {dy})[0];
    EXPECT_TRUE(found.allclose(torch::autograd::grad({expected}, {maps}, {dy})[0], 1e-12, 1e-12));
  }
}

}  // namespace
}  // namespace stages
