#include "stages/train/softmax_fit.h"

#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "stages/machine/counting_allocator.h"

namespace stages {
namespace {

/// Points of three overlapping classes.
struct Points {
  explicit Points(std::int64_t rows, at::ScalarType type = at::kDouble) {
    torch::manual_seed(3);
    labels = torch::arange(rows).remainder(3);
    features = (torch::randn({rows, 4}, at::kDouble) + labels.unsqueeze(1)).to(type);
  }
  at::Tensor features, labels;
};

/// Returns the objective computed by torch's cross-entropy.
at::Tensor objective(const Points& points, const at::Tensor& weight, const at::Tensor& bias,
                     double strength) {
  return torch::cross_entropy_loss(torch::linear(points.features, weight, bias), points.labels) +
         strength / 2 / static_cast<double>(points.labels.size(0)) * weight.square().sum();
}

TEST(SoftmaxFit, GradientOfTheObjectiveIsBelowTheTolerance) {
  const Points points(5000);  // more than are computed at once
  constexpr double kTolerance = 1e-7, kStrength = 2;
  const SoftmaxFit fit =
      fit_softmax(points.features, points.labels,
                  {.classes = 3, .l2_strength = kStrength, .tolerance = kTolerance});
  const at::Tensor weight = fit.weight.clone().requires_grad_(),
                   bias = fit.bias.clone().requires_grad_();
  const at::Tensor loss = objective(points, weight, bias, kStrength);
  loss.backward();
  // Both gradients are sums of 5000 terms below 10 over 5000, so they differ by rounding only.
  constexpr double kRounding = 5000 * 10 * 1.2e-16;
  EXPECT_LE(weight.grad().abs().max().item<double>(), kTolerance + kRounding);
  EXPECT_LE(bias.grad().abs().max().item<double>(), kTolerance + kRounding);
  EXPECT_NEAR(loss.item<double>(), fit.loss, kRounding);
  EXPECT_LE(fit.largest_gradient, kTolerance);
}

TEST(SoftmaxFit, LargerStrengthGivesSmallerWeights) {
  const Points points(60);
  const auto norm = [&](double strength) {
    return fit_softmax(points.features, points.labels, {.classes = 3, .l2_strength = strength})
        .weight.norm()
        .item<double>();
  };
  EXPECT_GT(norm(0.01), norm(1));
  EXPECT_GT(norm(1), norm(100));
}

TEST(SoftmaxFit, StopsAtTheIterationLimit) {
  const Points points(60);
  const SoftmaxFit fit =
      fit_softmax(points.features, points.labels,
                  {.classes = 3, .l2_strength = 1e-6, .max_iterations = 3, .tolerance = 1e-12});
  EXPECT_EQ(fit.iterations, 3);
  EXPECT_GT(fit.largest_gradient, 1e-12);
}

TEST(SoftmaxFit, RepeatsBitForBit) {
  const Points points(300, at::kFloat);
  const auto fit = [&] {
    return fit_softmax(points.features, points.labels, {.classes = 3, .l2_strength = 0.1}).weight;
  };
  EXPECT_TRUE(torch::equal(fit(), fit()));
}

TEST(SoftmaxFit, CallbackCanStopTheFit) {
  const Points points(60);
  EXPECT_THROW(fit_softmax(points.features, points.labels, {.classes = 3},
                           [] { throw std::runtime_error("stop"); }),
               std::runtime_error);
}

TEST(SoftmaxFit, AccuracyCountsTheHighestLogit) {
  const SoftmaxFit fit{.weight = torch::eye(2, at::kDouble), .bias = torch::zeros(2, at::kDouble)};
  const at::Tensor features =
      torch::tensor({{2.0, 1.0}, {0.0, 1.0}, {3.0, 0.0}, {1.0, 5.0}}, at::kDouble);
  EXPECT_EQ(accuracy_of(fit, features, torch::tensor({0, 1, 1, 1}, at::kLong)), 0.75);
}

TEST(SoftmaxFit, NeedsNoMoreMemoryThanPlanned) {
  for (const auto& [rows, width, classes] :
       {std::array<std::int64_t, 3>{30, 64, 3}, {6000, 8, 3}, {200, 500, 40}}) {
    torch::manual_seed(5);
    const at::Tensor features = torch::randn({rows, width}, at::kDouble),
                     labels = torch::arange(rows).remainder(classes);
    const CountingAllocator counter;
    const SoftmaxFit fit = fit_softmax(
        features, labels,
        {.classes = classes, .l2_strength = 1e-3, .max_iterations = 60, .tolerance = 1e-9});
    accuracy_of(fit, features, labels);
    EXPECT_LE(counter.peak_bytes(), softmax_fit_bytes(rows, width, classes, 8)) << rows;
  }
}

}  // namespace
}  // namespace stages
