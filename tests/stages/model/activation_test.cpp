#include "stages/model/transformer_block.h"

#include <cmath>
#include <functional>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>

#include "stages/plan/recorder.h"
#include "tests/support/scoped_threads.h"

namespace stages {
namespace {

constexpr at::ScalarType kTypes[] = {torch::kFloat, torch::kDouble, torch::kBFloat16, torch::kHalf};

at::Tensor quick_gelu(const at::Tensor& x) { return activate(Activation::kQuickGelu, x); }
at::Tensor gelu_by_operators(const at::Tensor& x) { return x * torch::sigmoid(1.702 * x); }

at::Tensor random_numbers(at::IntArrayRef shape, std::uint64_t seed = 1) {
  return 3 * torch::randn(shape, at::detail::createCPUGenerator(seed));
}

/// Returns the gradient of the sum of a function's results, weighted by `dy`.
at::Tensor gradient(const std::function<at::Tensor(const at::Tensor&)>& function,
                    const at::Tensor& x, const at::Tensor& dy) {
  const at::Tensor leaf = x.detach().requires_grad_(true);
  return torch::autograd::grad({function(leaf)}, {leaf}, {dy})[0];
}

double distance(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(torch::kDouble) - b.to(torch::kDouble)).abs().max().item<double>();
}

TEST(ActivationTest, ActivationsMatchTheirFormulas) {
  const std::pair<Activation, std::function<double(double)>> formulas[] = {
      {Activation::kQuickGelu, [](double x) { return x / (1 + std::exp(-1.702 * x)); }},
      {Activation::kGelu, [](double x) { return x / 2 * (1 + std::erf(x / std::sqrt(2.0))); }},
  };
  for (const auto& [activation, formula] : formulas) {
    for (const double x : {-4.0, -0.7, 0.0, 0.3, 1.0, 5.0}) {
      EXPECT_NEAR(activate(activation, torch::tensor(x, torch::kDouble)).item<double>(), formula(x),
                  1e-12)
          << name(activation) << " of " << x;
    }
  }
}

TEST(ActivationTest, QuickGeluMatchesTorchBitForBitOnOneThread) {
  for (const std::int64_t count : {0, 1, 1000, 65536, 200003}) {
    for (const at::ScalarType type : kTypes) {
      const at::Tensor x = random_numbers({count}).to(type);
      const at::Tensor expected = [&x] {
        const ScopedThreads one(1);
        return gelu_by_operators(x);
      }();
      for (const int threads : {1, 2, 3}) {
        const ScopedThreads several(threads);
        EXPECT_TRUE(quick_gelu(x).equal(expected)) << count << " " << type << " " << threads;
      }
    }
  }
}

TEST(ActivationTest, QuickGeluGradientMatchesTorch) {
  const at::Tensor x = random_numbers({3, 70000}).to(torch::kDouble),
                   dy = random_numbers({3, 70000}, 2).to(torch::kDouble);
  const at::Tensor expected = gradient(gelu_by_operators, x, dy);
  EXPECT_LT(distance(gradient(quick_gelu, x, dy), expected), 1e-12);
  // float32 rounds the inputs, so where the derivatives of adjacent numbers differ, the gradients
  // differ too.
  EXPECT_LT(distance(gradient(quick_gelu, x.to(torch::kFloat), dy.to(torch::kFloat)), expected),
            1e-4);
  for (const at::ScalarType type : {torch::kBFloat16, torch::kHalf}) {
    const at::Tensor narrow = x.to(type), narrow_dy = dy.to(type);
    const at::Tensor exact =
        gradient(gelu_by_operators, narrow.to(torch::kDouble), narrow_dy.to(torch::kDouble));
    const at::Tensor ours = gradient(quick_gelu, narrow, narrow_dy);
    EXPECT_EQ(ours.scalar_type(), type);
    EXPECT_LT(distance(ours, exact),
              1.1 * distance(gradient(gelu_by_operators, narrow, narrow_dy), exact))
        << type;
  }
}

TEST(ActivationTest, QuickGeluAcceptsAnyMemoryLayout) {
  const at::Tensor plain = random_numbers({4, 30, 20, 50}), dy = random_numbers({4, 30, 20, 50}, 2);
  const at::Tensor expected = quick_gelu(plain),
                   expected_gradient = gradient(quick_gelu, plain, dy);
  const at::Tensor last = plain.contiguous(torch::MemoryFormat::ChannelsLast);
  const at::Tensor holes = torch::stack({plain, plain}, 4).select(4, 0);
  EXPECT_TRUE(quick_gelu(last).is_contiguous(torch::MemoryFormat::ChannelsLast));
  for (const at::Tensor& x : {last, holes}) {
    EXPECT_LT(distance(quick_gelu(x), expected), 1e-5);
    EXPECT_LT(distance(gradient(quick_gelu, x, dy), expected_gradient), 1e-5);
  }
  EXPECT_LT(distance(gradient(quick_gelu, plain, dy.contiguous(torch::MemoryFormat::ChannelsLast)),
                     expected_gradient),
            1e-5);
}

TEST(ActivationTest, OnlyTheInputIsSaved) {
  for (const auto& [word, activation] : kActivations) {
    const at::Tensor x = random_numbers({8}).requires_grad_(true);
    std::vector<const void*> kept;
    const ScopedSavedTensors saved(
        [&kept](const at::Tensor& tensor) { kept.push_back(tensor.const_data_ptr()); });
    activate(activation, x);
    EXPECT_EQ(kept, std::vector<const void*>{x.const_data_ptr()}) << word;
  }
}

TEST(ActivationTest, SecondDerivativeOfQuickGeluIsRejected) {
  const at::Tensor x = random_numbers({8}).requires_grad_(true);
  EXPECT_THROW(torch::autograd::grad({quick_gelu(x).sum()}, {x}, {}, /*retain_graph=*/true,
                                     /*create_graph=*/true),
               std::logic_error);
}

TEST(ActivationTest, MetaOutputHasTheTypeAndLayoutOfItsInput) {
  const at::Tensor x =
      torch::empty({2, 3, 4, 5}, at::TensorOptions(at::kMeta).dtype(torch::kBFloat16))
          .contiguous(torch::MemoryFormat::ChannelsLast);
  const at::Tensor dx = gradient(quick_gelu, x, torch::empty_like(x));
  for (const at::Tensor& y : {quick_gelu(x), dx}) {
    EXPECT_TRUE(y.is_meta());
    EXPECT_EQ(y.sizes(), x.sizes());
    EXPECT_EQ(y.strides(), x.strides());
    EXPECT_EQ(y.scalar_type(), torch::kBFloat16);
  }
}

}  // namespace
}  // namespace stages
