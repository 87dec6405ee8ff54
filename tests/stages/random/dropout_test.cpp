#include "stages/random/dropout.h"

#include <optional>
#include <stdexcept>

#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "stages/machine/counting_allocator.h"

namespace stages {
namespace {

constexpr StepKey kKey{.seed = 11, .step = 5};

/// Three dropout layers in training mode, one of them nested.
struct Net : torch::nn::Module {
  explicit Net(double probability = 0.4) {
    first = register_module("first", std::make_shared<Dropout>(probability));
    inner = register_module("inner", std::make_shared<torch::nn::Module>());
    second = inner->register_module("second", std::make_shared<Dropout>(probability));
    path = register_module("path", std::make_shared<Dropout>(probability, DropoutUnit::kSample));
  }
  at::Tensor forward(const at::Tensor& x) const {
    const at::Tensor hidden = first->forward(x).tanh();
    return hidden + path->forward(second->forward(hidden));
  }
  std::shared_ptr<torch::nn::Module> inner;
  std::shared_ptr<Dropout> first, second, path;
};

ScopedDropout scope(torch::nn::Module& net, std::vector<std::int64_t> samples, StepKey key = kKey) {
  return ScopedDropout(net, key, samples);
}

TEST(Dropout, GradientMatchesFiniteDifferences) {
  Net net;
  const auto dropout = scope(net, {3, 1, 2});
  torch::manual_seed(2);
  const at::Tensor x = torch::randn({3, 6}, torch::kDouble).requires_grad_();
  const at::Tensor direction = torch::randn({3, 6}, torch::kDouble);
  const at::Tensor gradient = torch::autograd::grad({(net.forward(x) * direction).sum()}, {x})[0];
  const torch::NoGradGuard no_graph;
  at::Tensor differences = torch::zeros_like(x);
  constexpr double kStep = 1e-5;
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    at::Tensor up = x.detach().clone(), down = up.clone();
    up.view(-1)[i] += kStep;
    down.view(-1)[i] -= kStep;
    differences.view(-1)[i] =
        ((net.forward(up) - net.forward(down)) * direction).sum() / (2 * kStep);
  }
  EXPECT_LT((gradient - differences).abs().max().item<double>(), 1e-9);
  EXPECT_GT(gradient.abs().max().item<double>(), 0.1);
}

TEST(Dropout, SecondDerivativeIsSupported) {
  Net net;
  const auto dropout = scope(net, {3, 1, 2});
  torch::manual_seed(3);
  const at::Tensor x = torch::randn({3, 6}, torch::kDouble).requires_grad_();
  const auto gradient = [&](const at::Tensor& at) {
    return torch::autograd::grad({net.forward(at).square().sum()}, {at}, {}, {},
                                 /*create_graph=*/true)[0];
  };
  const at::Tensor second = torch::autograd::grad({gradient(x).sum()}, {x})[0];
  constexpr double kStep = 1e-5;
  at::Tensor up = x.detach().clone();
  up[1][2] += kStep;
  const at::Tensor slope = (gradient(up.requires_grad_()).sum() - gradient(x).sum()) / kStep;
  EXPECT_NEAR(second[1][2].item<double>(), slope.item<double>(), 1e-3);
}

TEST(Dropout, NothingIsSavedForTheBackwardPass) {
  Net net;
  const auto dropout = scope(net, {3, 1});
  const at::Tensor x = torch::randn({2, 6000}).requires_grad_();
  const CountingAllocator counter;
  const at::Tensor y = net.first->forward(x * 1);
  EXPECT_EQ(counter.live_bytes(), 4 * x.numel());  // only y: neither its input nor a mask
  EXPECT_TRUE(torch::autograd::grad({y.sum()}, {x})[0].ne(0).equal(y.ne(0)));
}

TEST(Dropout, TwoCallsAndARecomputationGiveTheSameBits) {
  Net net;
  const at::Tensor x = torch::randn({4, 6}, torch::kDouble);
  const auto forward = [&](StepKey key) {
    const auto dropout = scope(net, {7, 8, 9, 2}, key);
    const at::Tensor first = net.forward(x);
    EXPECT_TRUE(net.forward(x).equal(first));
    // Runs the second layer alone, like activation checkpointing.
    EXPECT_TRUE(net.second->forward(x).equal(net.second->forward(x)));
    return first;
  };
  const at::Tensor first = forward(kKey);
  torch::rand(3);  // advances the global generator
  EXPECT_TRUE(forward(kKey).equal(first));
  EXPECT_FALSE(forward({.seed = 11, .step = 6}).equal(first));
  EXPECT_FALSE(forward({.seed = 12, .step = 5}).equal(first));
}

TEST(Dropout, EachLayerHasItsOwnMask) {
  Net net;
  const auto dropout = scope(net, {1});
  const at::Tensor x = torch::ones({1, 1000});
  EXPECT_FALSE(net.first->forward(x).equal(net.second->forward(x)));
}

TEST(Dropout, SampleDropoutKeepsOrDropsWholeRows) {
  Net net;
  std::vector<std::int64_t> samples(100);
  for (std::int64_t i = 0; i < 100; ++i) samples[i] = i;
  const auto dropout = scope(net, samples);
  const at::Tensor y = net.path->forward(torch::ones({100, 6}));
  EXPECT_TRUE(y.amin(1).equal(y.amax(1)));
  const auto dropped = y.select(1, 0).eq(0).sum().item<std::int64_t>();
  EXPECT_GT(dropped, 20);
  EXPECT_LT(dropped, 60);
}

TEST(Dropout, ProbabilityOfACallOverridesThatOfTheLayer) {
  Net net, never(0);
  const auto dropout = scope(net, {1});
  const auto none = scope(never, {1});
  const at::Tensor x = torch::ones({1, 1000});
  const at::Tensor often = net.first->forward(x), seldom = net.first->forward(x, 0.01);
  EXPECT_LT(seldom.eq(0).sum().item<std::int64_t>(), 50);
  EXPECT_TRUE(seldom.ne(0).logical_or(often.eq(0)).all().item<bool>()) << "the same numbers";
  EXPECT_TRUE(net.first->forward(x, 0.4).equal(often));
  EXPECT_TRUE(never.first->forward(x, 0.4).is_same(x));
}

TEST(Dropout, SharedFactorDependsOnlyOnTheStep) {
  Net net;
  const auto factor = [&](std::int64_t step, std::vector<std::int64_t> samples) {
    const auto dropout = scope(net, std::move(samples), {.seed = 11, .step = step});
    return net.path->factor_of_all(torch::dtype(torch::kDouble)).item<double>();
  };
  int dropped = 0;
  for (std::int64_t step = 0; step < 200; ++step) {
    const double here = factor(step, {3, 1, 2});
    EXPECT_EQ(factor(step, {4}), here);
    if (here == 0) ++dropped;
    else EXPECT_DOUBLE_EQ(here, 1 / 0.6);
  }
  EXPECT_GT(dropped, 50);
  EXPECT_LT(dropped, 110);
  net.eval();
  EXPECT_EQ(factor(0, {1}), 1);
}

TEST(Dropout, EvaluationAndProbabilityZeroAreTheIdentity) {
  Net net, never(0);
  const at::Tensor x = torch::randn({2, 6}, torch::kDouble);
  EXPECT_TRUE(never.first->forward(x).is_same(x));
  net.eval();
  EXPECT_TRUE(net.first->forward(x).is_same(x));
}

TEST(Dropout, ScopeWithoutDropoutAllocatesNothing) {
  Net never(0);
  const CountingAllocator counter;
  const auto dropout = scope(never, {0, 1, 2});
  EXPECT_EQ(counter.allocations(), 0);
  const at::Tensor x = torch::ones({2, 6});
  EXPECT_TRUE(never.first->forward(x).is_same(x))
      << "the numbers of rows and names differ, but there was no error";
}

TEST(Dropout, ProbabilityOneIsZeroWithAZeroGradient) {
  Net net(1);
  const auto dropout = scope(net, {0, 1});
  const at::Tensor x = torch::randn({2, 6}, torch::kDouble).requires_grad_();
  const at::Tensor y = net.first->forward(x);
  EXPECT_TRUE(y.equal(torch::zeros_like(x)));
  EXPECT_TRUE(torch::autograd::grad({y.sum()}, {x})[0].equal(torch::zeros_like(x)));
}

TEST(Dropout, TrainingWithoutAScopeIsAnError) {
  const Net net;
  EXPECT_THROW(net.forward(torch::ones({2, 6}, torch::kDouble)), std::logic_error);
}

TEST(Dropout, InvalidRowNamesAreRejected) {
  Net net;
  EXPECT_THROW(Dropout(1.5), std::invalid_argument);
  EXPECT_THROW(Dropout(-0.1), std::invalid_argument);
  EXPECT_THROW((void)scope(net, {-1}), std::invalid_argument);
  EXPECT_THROW((void)scope(net, {std::int64_t{1} << 32}), std::invalid_argument);
  EXPECT_THROW((void)scope(net, {0}, {.seed = 0, .step = std::int64_t{1} << 32}),
               std::invalid_argument);
  const auto dropout = scope(net, {0});
  EXPECT_THROW(net.forward(torch::ones({2, 6}, torch::kDouble)), std::invalid_argument);
}

TEST(Dropout, DrawingSeedDependsOnStepRowsAndInput) {
  Dropout layer(1);
  EXPECT_EQ(layer.drawing_seed(), std::nullopt);
  const auto seed = [&](const StepKey& key, const RowNames& rows, const char* input) {
    const ScopedDropout dropout(layer, key, rows);
    const ScopedInput view(layer, input);
    return layer.drawing_seed().value();
  };
  const std::uint64_t one = seed({7, 3}, {{"", {4, 5}}}, "");
  EXPECT_EQ(seed({7, 3}, {{"", {4, 5}}}, ""), one);
  EXPECT_NE(seed({8, 3}, {{"", {4, 5}}}, ""), one);
  EXPECT_NE(seed({7, 4}, {{"", {4, 5}}}, ""), one);
  EXPECT_NE(seed({7, 3}, {{"", {4}}}, ""), one);
  EXPECT_NE(seed({7, 3}, {{"", {4, 5}}}, "view"), one);
  EXPECT_NE(seed({7, 3}, {{"view", {4, 5}}, {"query", {6}}}, "query"),
            seed({7, 3}, {{"view", {4, 5}}, {"query", {7}}}, "query"));
}

TEST(ScopedInput, EachInputHasItsOwnMasks) {
  Net net;
  const at::Tensor x = torch::ones({2, 50});
  const auto forward = [&](const char* input) {
    const ScopedInput rows(net, input);
    return net.forward(x);
  };
  at::Tensor query, support;
  {
    const ScopedDropout dropout(net, kKey, RowNames{{"query", {4, 5}}, {"support", {4, 5}}});
    query = forward("query");
    support = forward("support");
    EXPECT_TRUE(forward("query").equal(query));
    EXPECT_FALSE(query.equal(support));
  }
  const ScopedDropout dropout(net, kKey, RowNames{{"support", {4, 5}}, {"query", {5, 9}}});
  EXPECT_TRUE(forward("support").equal(support));
  EXPECT_TRUE(forward("query")[0].equal(query[1]));
}

TEST(ScopedInput, ViewsOfTheSameSamplesHaveTheirOwnMasks) {
  Net net;
  const at::Tensor x = torch::ones({2, 50});
  const auto dropout = scope(net, {4, 5});
  const at::Tensor plain = net.forward(x);
  {
    const ScopedInput view(net, "view");
    EXPECT_FALSE(net.forward(x).equal(plain));
    const ScopedInput none(net, "");
    EXPECT_TRUE(net.forward(x).equal(plain));
  }
  EXPECT_TRUE(net.forward(x).equal(plain));
}

TEST(ScopedInput, RowsWithoutANameAreAnError) {
  Net net;
  const at::Tensor x = torch::ones({2, 6});
  const ScopedDropout dropout(net, kKey, RowNames{{"query", {4, 5}}});
  EXPECT_THROW(net.forward(x), std::logic_error);
  try {
    const ScopedInput rows(net, "support");
    FAIL();
  } catch (const std::logic_error& error) {
    EXPECT_STREQ(error.what(), "dropout: the rows of the input 'support' have no names");
  }
  const ScopedInput rows(net, "query");
  EXPECT_EQ(net.forward(x).size(0), 2);
  EXPECT_THROW(net.forward(torch::ones({3, 6})), std::invalid_argument);
}

TEST(ScopedInput, DoesNothingInEvaluation) {
  Net net;
  net.eval();
  const ScopedInput rows(net, "query");
  const at::Tensor x = torch::ones({2, 6});
  EXPECT_TRUE(net.first->forward(x).is_same(x));
}

TEST(DropoutNames, AllowRecomputationAfterTheScope) {
  Net net;
  const at::Tensor x = torch::ones({2, 50});
  std::optional<DropoutNames> names;
  at::Tensor before;
  {
    const ScopedDropout dropout(net, kKey, RowNames{{"query", {4, 5}}});
    const ScopedInput rows(net, "query");
    names.emplace(*net.inner);
    before = net.second->forward(x);
  }
  const auto later = scope(net, {1, 2}, {.seed = 1, .step = 6});
  const at::Tensor other = net.second->forward(x);
  {
    const ScopedDropout again(*names);
    EXPECT_TRUE(net.second->forward(x).equal(before));
  }
  EXPECT_TRUE(net.second->forward(x).equal(other));
  EXPECT_FALSE(other.equal(before));
}

TEST(DropoutNames, TakeOverStepAndSamplesOfALaterScope) {
  Net net;
  const at::Tensor x = torch::ones({2, 50});
  const auto forward = [&](const char* input) {
    const ScopedInput rows(net, input);
    return net.forward(x);
  };
  std::optional<DropoutNames> kept;
  for (const std::int64_t step : {5, 6, 7}) {
    const RowNames rows = {{"query", {4, step}}, {"", {step, 9}}};
    const ScopedDropout dropout(net, {.seed = 11, .step = step}, rows);
    const at::Tensor query = forward("query"), other = forward("other");
    if (!kept) kept.emplace(net);
    else kept->copy_from(DropoutNames(net));
    const ScopedDropout again(*kept);
    EXPECT_TRUE(forward("query").equal(query)) << step;
    EXPECT_TRUE(forward("other").equal(other)) << step;
  }
}

TEST(ScopedDropout, OuterScopeIsRestoredAfterAnException) {
  Net net;
  const at::Tensor x = torch::randn({2, 6}, torch::kDouble);
  const auto outer = scope(net, {1, 2});
  const at::Tensor before = net.forward(x);
  EXPECT_THROW(
      {
        const auto inner = scope(net, {3, 4});
        EXPECT_FALSE(net.forward(x).equal(before));
        throw std::runtime_error("midway");
      },
      std::runtime_error);
  EXPECT_TRUE(net.forward(x).equal(before));
}

}  // namespace
}  // namespace stages
