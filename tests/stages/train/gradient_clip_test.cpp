#include "stages/train/gradient_clip.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include "stages/train/step_execution.h"
#include "tests/support/on_test_device.h"
#include "tests/support/tiny_training.h"

namespace stages {
namespace {

at::Tensor with_gradient(at::Tensor weight, const at::Tensor& gradient) {
  weight.requires_grad_();
  weight.mutable_grad() = gradient.clone();
  return weight;
}

TEST(GradientClip, ValueLimitsEachElement) {
  const at::Tensor x =
      with_gradient(torch::ones(4, here()), torch::tensor({-3.0F, -0.5F, 0.5F, 3.0F}, here()));
  clip_each({x, torch::ones(2, here())}, {.value = 1});
  EXPECT_TRUE(x.grad().equal(torch::tensor({-1.0F, -0.5F, 0.5F, 1.0F}, here())));
}

TEST(GradientClip, AdaptiveLimitsEachRowByItsWeights) {
  // The norms of the weights are 5 and 0, which counts as 1; the limit is a tenth of them.
  const at::Tensor x =
      with_gradient(torch::tensor({3.0, 4.0, 0.0, 0.0}, here().dtype(torch::kDouble)).view({2, 2}),
                    torch::tensor({0.0, 2.0, 0.0, 2.0}, here().dtype(torch::kDouble)).view({2, 2}));
  clip_each({x}, {.adaptive = AdaptiveClip{.factor = 0.1, .epsilon = 1}});
  EXPECT_DOUBLE_EQ(x.grad()[0][1].item<double>(), 0.5);
  EXPECT_DOUBLE_EQ(x.grad()[1][1].item<double>(), 0.1);
}

TEST(GradientClip, AdaptiveKeepsShortGradientsBitForBit) {
  const at::Tensor gradient = torch::full({3, 4}, 1e-9F, here());
  const at::Tensor x = with_gradient(torch::ones({3, 4}, here()), gradient);
  clip_each({x}, {.adaptive = AdaptiveClip{.factor = 0.01, .epsilon = 1e-9}});
  EXPECT_TRUE(x.grad().equal(gradient));
}

TEST(GradientClip, AdaptiveSkipsTheHead) {
  const at::Tensor x = with_gradient(torch::ones(2, here()), torch::ones(2, here())),
                   head = with_gradient(torch::ones(2, here()), torch::ones(2, here()));
  clip_each({x, head}, {.adaptive = AdaptiveClip{.factor = 0.01, .epsilon = 1e-3}, .head = {head}});
  EXPECT_LT(x.grad()[0].item<float>(), 0.1F);
  EXPECT_TRUE(head.grad().equal(torch::ones(2, here())));
}

TEST(GradientClip, LastLayerIsTheModuleOfTheLastParameter) {
  const torch::nn::Sequential network{torch::nn::Linear(2, 3), torch::nn::Linear(3, 2)};
  const std::vector<at::Tensor> layer = last_layer(*network);
  ASSERT_EQ(layer.size(), 2);
  EXPECT_TRUE(layer[0].is_same(network->named_parameters()["1.weight"]));
  EXPECT_TRUE(layer[1].is_same(network->named_parameters()["1.bias"]));
}

TEST(GradientClip, LimitAppliesToTheGradientOfTheWholeBatch) {
  TinyTraining whole, parts;
  for (TinyTraining* one : {&whole, &parts}) {
    one->options.optimizer = SgdOptions{.learning_rate = 1};
    one->options.gradient_clip_value = 1e-3;
    one->options.epochs = 1;
    one->options.batch_size = 30;
    one->validation = nullptr;
  }
  parts.policy.micro_batch = 4;
  const at::Tensor before = whole.flat_weights();
  whole.run();
  parts.run();
  // Weights below 1 are rounded to at most 2^-25, before and after the step.
  constexpr double kRounding = 0x1p-24;
  for (const TinyTraining* one : {&whole, &parts})
    EXPECT_NEAR((one->flat_weights() - before).abs().max().item<double>(), 1e-3, kRounding);
}

TEST(GradientClip, LocalLimitsWorkWithStepsInBackward) {
  for (const bool is_adaptive : {false, true}) {
    TinyTraining after, during;
    for (TinyTraining* one : {&after, &during}) {
      if (is_adaptive) {
        one->options.adaptive_gradient_clip = AdaptiveClip{.factor = 1e-3, .epsilon = 1e-3};
      } else {
        one->options.gradient_clip_value = 1e-3;
      }
    }
    during.policy.optimizer_in_backward = true;
    TinyTraining free;
    after.run();
    during.run();
    free.run();
    EXPECT_TRUE(during.flat_weights().equal(after.flat_weights())) << is_adaptive;
    EXPECT_FALSE(free.flat_weights().equal(after.flat_weights())) << is_adaptive;
  }
}

}  // namespace
}  // namespace stages
