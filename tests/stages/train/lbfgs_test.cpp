#include "stages/train/lbfgs.h"

#include <cmath>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "stages/machine/counting_allocator.h"

namespace stages {
namespace {

/// The sum of scale · (x - 1)² / 2, with widely different curvatures.
class Bowl {
 public:
  explicit Bowl(std::int64_t size)
      : scale_(torch::logspace(-2, 2, size, 10, at::TensorOptions(at::kDouble))) {}
  double operator()(const at::Tensor& x, const at::Tensor& gradient) const {
    gradient.copy_(x).sub_(1).mul_(scale_);
    return (scale_ * (x - 1).square()).sum().item<double>() / 2;
  }

 private:
  const at::Tensor scale_;
};

TEST(Lbfgs, FindsTheMinimumOfAnIllConditionedQuadratic) {
  constexpr double kTolerance = 1e-8, kLeastCurvature = 0.01;
  const Minimum minimum = minimize(torch::zeros({30}, at::kDouble), Bowl(30),
                                   {.max_iterations = 1000, .tolerance = kTolerance});
  EXPECT_LE(minimum.largest_gradient, kTolerance);
  EXPECT_LE((minimum.x - 1).abs().max().item<double>(), kTolerance / kLeastCurvature);
}

TEST(Lbfgs, StaysAtTheMinimum) {
  const Minimum minimum = minimize(torch::ones({5}, at::kDouble), Bowl(5), {});
  EXPECT_EQ(minimum.iterations, 0);
  EXPECT_TRUE(torch::equal(minimum.x, torch::ones({5}, at::kDouble)));
}

TEST(Lbfgs, StopsWhenRoundingHidesADecrease) {
  const Minimum minimum =
      minimize(torch::zeros({5}, at::kDouble), Bowl(5), {.max_iterations = 100000, .tolerance = 0});
  EXPECT_LT(minimum.iterations, 1000);
}

// The slope is at most 1 and hardly changes at first: the line search must correct steps that are
// far too short or far too long.
TEST(Lbfgs, LineSearchHandlesANearlyConstantSlope) {
  const auto function = [](const at::Tensor& x, const at::Tensor& gradient) {
    gradient.copy_((x - 1000).mul(1e-3).tanh());
    return 1e3 * (x - 1000).mul(1e-3).cosh().log().sum().item<double>();
  };
  const Minimum minimum =
      minimize(torch::full({1}, -3000, at::kDouble), function, {.tolerance = 1e-6});
  EXPECT_LE(minimum.largest_gradient, 1e-6);
}

TEST(Lbfgs, UsesNoMoreVectorsThanStated) {
  constexpr std::int64_t kSize = 5000, kOfTheBowl = 2;
  const Bowl bowl(kSize);
  const at::Tensor start = torch::zeros({kSize}, at::kDouble);
  const CountingAllocator counter;
  minimize(start, bowl, {.max_iterations = 40, .tolerance = 1e-9});
  constexpr std::int64_t kScalars = 64 * 1024;
  EXPECT_LE(counter.peak_bytes(), (lbfgs_vectors(10) + kOfTheBowl) * kSize * 8 + kScalars);
}

}  // namespace
}  // namespace stages
