#include "stages/numerics/recomputable_module.h"

#include <stdexcept>

#include <gmock/gmock.h>
#include <torch/autograd.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "stages/machine/counting_allocator.h"
#include "stages/random/dropout.h"
#include "stages/random/generator_state.h"

namespace stages {
namespace {

using testing::ElementsAre;

/// A product, batch statistics, one of our dropout masks, and one from torch's generator.
class Part final : public RecomputableModule {
 public:
  explicit Part(bool is_block = true, bool mixes = true) : is_block_(is_block), mixes_(mixes) {
    linear = register_module("linear", torch::nn::Linear(4, 4));
    norm = register_module("norm", torch::nn::BatchNorm1d(4));
    dropout_ = register_module("dropout", std::make_shared<Dropout>(0.4));
  }
  bool is_block() const override { return is_block_; }

  torch::nn::Linear linear = nullptr;
  torch::nn::BatchNorm1d norm = nullptr;
  mutable std::vector<bool> with_graph;  // one entry per computation
  mutable std::function<void()> on_compute;
  bool draws = true;

 private:
  at::Tensor compute(const at::Tensor& input) const override {
    const OwnPrecision own(*this);
    with_graph.push_back(torch::GradMode::is_enabled());
    if (on_compute) on_compute();
    at::Tensor y = torch::tanh(torch::linear(own(input), linear->weight, linear->bias));
    if (mixes_) y = torch::nn::BatchNorm1d(norm)->forward(y.to(norm->weight.scalar_type()));
    y = dropout_->forward(y);
    return draws ? torch::dropout(y, 0.3, is_training()) : y;
  }

  const bool is_block_, mixes_;
  std::shared_ptr<Dropout> dropout_;
};

/// first → blocks.0 → blocks.1 → last, which is not a block.
class Network final : public torch::nn::Module {
 public:
  Network() {
    torch::manual_seed(1);
    first = register_module("first", torch::nn::Linear(3, 4));
    blocks = register_module("blocks", torch::nn::ModuleList());
    for (int i = 0; i < 2; ++i) blocks->push_back(std::make_shared<Part>());
    last = register_module("last", std::make_shared<Part>(/*is_block=*/false));
    to(torch::kDouble);
  }
  at::Tensor forward(const at::Tensor& x) {
    at::Tensor y = first->forward(x);
    for (int i = 0; i < 2; ++i) y = block(i).forward(y);
    return last->forward(y);
  }
  Part& block(int i) const { return *blocks->ptr<Part>(static_cast<std::size_t>(i)); }

  torch::nn::Linear first = nullptr;
  torch::nn::ModuleList blocks = nullptr;
  std::shared_ptr<Part> last;
};

at::Tensor points(std::int64_t rows = 6) {
  return torch::randn({rows, 3}, at::detail::createCPUGenerator(2), torch::kDouble);
}

/// Everything that a step leaves: gradients, buffers and the state of torch's generator.
std::vector<at::Tensor> after_step(const ActivationCheckpointing& modules, int steps = 1) {
  Network network;
  torch::manual_seed(3);
  for (int step = 1; step <= steps; ++step) {
    const ScopedActivationCheckpointing recomputed(network, modules);
    const ScopedDropout dropout(network, {7, step}, {0, 1, 2, 3, 4, 5});
    network.forward(points()).square().sum().backward();
  }
  std::vector<at::Tensor> left;
  for (const at::Tensor& parameter : network.parameters()) left.push_back(parameter.grad());
  for (const at::Tensor& buffer : network.buffers()) left.push_back(buffer);
  left.push_back(generator_states(at::kCPU)[0].second);
  return left;
}

bool equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  return std::ranges::equal(
      a, b, [](const at::Tensor& one, const at::Tensor& other) { return one.equal(other); });
}

TEST(RecomputableModule, GivesTheSameBits) {
  for (const int steps : {1, 2}) {  // the second step adds to existing gradients
    const std::vector<at::Tensor> plain = after_step({}, steps);
    EXPECT_TRUE(equal(after_step({.blocks = true}, steps), plain)) << steps;
    EXPECT_TRUE(equal(after_step({.modules = {"blocks.1"}}, steps), plain)) << steps;
    EXPECT_TRUE(equal(after_step({.modules = {"blocks.*", "last"}}, steps), plain)) << steps;
  }
}

/// Returns num_batches_tracked and the running statistics of the first block after a step.
std::vector<double> statistics(const ActivationCheckpointing& modules) {
  Network network;
  const ScopedActivationCheckpointing recomputed(network, modules);
  const ScopedDropout dropout(network, {7, 1}, {0, 1, 2, 3, 4, 5});
  network.forward(points()).square().sum().backward();
  const auto& norm = network.block(0).norm;
  return {norm->num_batches_tracked.item<double>(), norm->running_mean.norm().item<double>()};
}

TEST(RecomputableModule, StatisticsAreUpdatedOnceOrPerComputation) {
  const std::vector<double> plain = statistics({}), once = statistics({.blocks = true}),
                            twice = statistics({.blocks = true, .updates_twice = true});
  EXPECT_EQ(once, plain);
  EXPECT_EQ(twice[0], 2);
  EXPECT_NEAR(twice[1] / plain[1], 1 + 0.9, 1e-9)
      << "a momentum of 0.1, applied twice toward the same mean";
}

TEST(RecomputableModule, OnlyNamedModulesAreRecomputed) {
  const auto times = [](const ActivationCheckpointing& modules) {
    Network network;
    const ScopedActivationCheckpointing recomputed(network, modules);
    const ScopedDropout dropout(network, {7, 1}, {0, 1, 2, 3, 4, 5});
    network.forward(points()).sum().backward();
    return std::vector{network.block(0).with_graph.size(), network.block(1).with_graph.size(),
                       network.last->with_graph.size()};
  };
  EXPECT_THAT(times({}), ElementsAre(1, 1, 1));
  EXPECT_THAT(times({.blocks = true}), ElementsAre(2, 2, 1));
  EXPECT_THAT(times({.modules = {"blocks.0"}}), ElementsAre(2, 1, 1));
  EXPECT_THAT(times({.modules = {"blocks.*"}}), ElementsAre(2, 2, 1));
  EXPECT_THAT(times({.modules = {"last"}}), ElementsAre(1, 1, 2));
}

TEST(RecomputableModule, FirstPassHasNoGraph) {
  Network network;
  const ScopedActivationCheckpointing recomputed(network, {.blocks = true});
  const ScopedDropout dropout(network, {7, 1}, {0, 1, 2, 3, 4, 5});
  network.forward(points()).sum().backward();
  EXPECT_THAT(network.block(0).with_graph, ElementsAre(false, true));
  EXPECT_THAT(network.last->with_graph, ElementsAre(true));
}

TEST(RecomputableModule, OuterScopeIsRestoredAfterAnException) {
  Network network;
  const auto times = [&](int i) {
    const ScopedDropout dropout(network, {7, 1}, {0, 1, 2, 3, 4, 5});
    network.block(i).with_graph.clear();
    network.forward(points()).sum().backward();
    return network.block(i).with_graph.size();
  };
  {
    const ScopedActivationCheckpointing outer(network, {.modules = {"blocks.0"}});
    try {
      const ScopedActivationCheckpointing inner(network, {.modules = {"blocks.1"}});
      EXPECT_EQ(times(0), 1);
      EXPECT_EQ(times(1), 2);
      throw std::runtime_error("");
    } catch (const std::runtime_error&) {
    }
    EXPECT_EQ(times(0), 2);
    EXPECT_EQ(times(1), 1);
  }
  EXPECT_EQ(times(0), 1);
}

TEST(RecomputableModule, NothingIsRecomputedWithoutGradients) {
  Part part(/*is_block=*/true, /*mixes=*/false);
  part.to(torch::kDouble);
  const ScopedActivationCheckpointing recomputed(part, {.blocks = true});
  const ScopedDropout dropout(part, {7, 1}, std::vector<std::int64_t>{0, 1});
  const at::Tensor x = torch::ones({2, 4}, torch::kDouble);
  {
    const torch::NoGradGuard no_graph;
    EXPECT_FALSE(part.forward(x).requires_grad());
  }
  for (at::Tensor& parameter : part.parameters()) parameter.requires_grad_(false);
  EXPECT_FALSE(part.forward(x).requires_grad());
  EXPECT_THAT(
      part.with_graph,
      ElementsAre(false, true));  // the second block as a single pass, not as the first of two
}

TEST(RecomputableModule, WorksIfOnlyInputOrParametersRequireGrad) {
  const auto gradients = [](bool of_input, bool of_parameters, bool recompute) {
    torch::manual_seed(1);
    Part part;
    part.to(torch::kDouble);
    part.linear->bias.requires_grad_(false);
    if (!of_parameters)
      for (at::Tensor& parameter : part.parameters()) parameter.requires_grad_(false);
    const ScopedActivationCheckpointing recomputed(part, {.blocks = recompute});
    const ScopedDropout dropout(part, {7, 1}, {0, 1, 2, 3, 4, 5});
    const at::Tensor x =
        torch::cat({points(), points()}, 1).slice(1, 0, 4).requires_grad_(of_input);
    part.forward(x).square().sum().backward();
    EXPECT_EQ(part.with_graph.size(), recompute ? 2 : 1);
    EXPECT_EQ(x.grad().defined(), of_input);
    EXPECT_EQ(part.linear->weight.grad().defined(), of_parameters);
    EXPECT_FALSE(part.linear->bias.grad().defined());
    std::vector<at::Tensor> all;
    if (of_input) all.push_back(x.grad());
    if (of_parameters) all.push_back(part.linear->weight.grad());
    return all;
  };
  for (const auto& [of_input, of_parameters] :
       {std::pair(true, true), std::pair(true, false), std::pair(false, true)})
    EXPECT_TRUE(
        equal(gradients(of_input, of_parameters, true), gradients(of_input, of_parameters, false)));
}

TEST(RecomputableModule, UnusedParameterGetsNoGradient) {
  Part part(/*is_block=*/true, /*mixes=*/false);
  part.to(torch::kDouble);
  const ScopedActivationCheckpointing recomputed(part, {.blocks = true});
  const ScopedDropout dropout(part, {7, 1}, std::vector<std::int64_t>{0, 1});
  part.forward(torch::ones({2, 4}, torch::kDouble)).sum().backward();
  EXPECT_TRUE(part.linear->weight.grad().defined());
  EXPECT_FALSE(part.norm->weight.grad().defined());
}

TEST(RecomputableModule, GradientsOfASharedWeightAreAddedInTheSameOrder) {
  const auto gradient = [](bool recompute) {
    torch::manual_seed(1);
    Part part;
    part.to(torch::kFloat);
    part.draws = false;
    const ScopedActivationCheckpointing recomputed(part, {.blocks = recompute});
    const ScopedDropout dropout(part, {7, 1}, {0, 1, 2, 3, 4, 5});
    part.linear->weight.mutable_grad() = torch::full({4, 4}, 100.1f);
    at::Tensor sum = torch::zeros({});
    for (const float factor : {0.3f, 1.7f, 0.9f, 2.3f}) {
      const at::Tensor x =
          torch::cat({points(), points()}, 1).slice(1, 0, 4).to(torch::kFloat) * factor;
      sum = sum + part.forward(x).square().sum();
    }
    sum.backward();
    return part.linear->weight.grad();
  };
  EXPECT_TRUE(gradient(true).equal(gradient(false)));
}

TEST(RecomputableModule, NestedModuleIsRecomputedWithinItsParent) {
  class Outer final : public RecomputableModule {
   public:
    Outer() { inner = register_module("inner", std::make_shared<Part>(false)); }
    std::shared_ptr<Part> inner;

   private:
    at::Tensor compute(const at::Tensor& x) const override {
      return x + inner->forward(torch::exp(x));
    }
  };
  const auto gradient = [](std::vector<std::string> modules, std::size_t times) {
    torch::manual_seed(1);
    Outer outer;
    outer.to(torch::kDouble);
    const ScopedActivationCheckpointing recomputed(outer, {.modules = std::move(modules)});
    const ScopedDropout dropout(outer, {7, 1}, {0, 1, 2, 3, 4, 5});
    const at::Tensor x = torch::ones({6, 4}, torch::kDouble).cumsum(0).requires_grad_();
    outer.forward(x).square().sum().backward();
    EXPECT_EQ(outer.inner->with_graph.size(), times);
    std::vector<at::Tensor> left = {x.grad(), outer.inner->linear->weight.grad()};
    for (const at::Tensor& buffer : outer.buffers()) left.push_back(buffer);
    return left;
  };
  const std::vector<at::Tensor> plain = gradient({}, 1);
  EXPECT_TRUE(equal(gradient({"inner"}, 2), plain));
  EXPECT_TRUE(equal(gradient({"", "inner"}, 3), plain));
}

TEST(RecomputableModule, ActivationsAreNotSaved) {
  const auto kept = [](bool recompute) {
    Network network;
    const ScopedActivationCheckpointing recomputed(network, {.blocks = recompute});
    std::vector<std::int64_t> names(4096);
    const ScopedDropout dropout(network, {7, 1}, names);
    const at::Tensor x = points(4096);
    const CountingAllocator counter;
    const at::Tensor y = network.forward(x);
    return counter.live_bytes();
  };
  constexpr std::int64_t kActivation = 4096 * 4 * 8;
  EXPECT_GE(kept(false) - kept(true),
            3 * kActivation);  // two per block, except for temporary memory
}

TEST(RecomputableModule, ExceptionDuringRecomputationRestoresEverything) {
  Network network;
  const ScopedActivationCheckpointing recomputed(network, {.blocks = true});
  const ScopedDropout dropout(network, {7, 1}, {0, 1, 2, 3, 4, 5});
  const at::Tensor loss = network.forward(points()).square().sum();
  std::vector<at::Tensor> before;
  for (const at::Tensor& buffer : network.buffers()) before.push_back(buffer.clone());
  before.push_back(generator_states(at::kCPU)[0].second);
  network.block(0).on_compute = [] { throw std::runtime_error("no memory"); };
  EXPECT_THROW(loss.backward(), std::runtime_error);
  std::vector<at::Tensor> after = network.buffers();
  after.push_back(generator_states(at::kCPU)[0].second);
  EXPECT_TRUE(equal(after, before));
  EXPECT_EQ(current_precision(at::kCPU), Precision::kFp32);
}

TEST(RecomputableModule, SecondDerivativeIsRejected) {
  Network network;
  const ScopedActivationCheckpointing recomputed(network, {.blocks = true});
  const ScopedDropout dropout(network, {7, 1}, {0, 1, 2, 3, 4, 5});
  const at::Tensor loss = network.forward(points()).square().sum();
  EXPECT_THROW(
      torch::autograd::grad({loss}, {network.first->weight}, {}, true, /*create_graph=*/true),
      std::logic_error);
}

/// Returns the gradient of the first block's weight if the network runs in `map`.
at::Tensor gradient_in(const PrecisionMap& map, const ActivationCheckpointing& modules,
                       bool weight_outside = false) {
  Network network;
  network.to(torch::kFloat);
  torch::manual_seed(3);
  const ScopedPrecisionMap own(network, map, at::kCPU);
  const ScopedActivationCheckpointing recomputed(network, modules);
  const ScopedDropout dropout(network, {7, 1}, {0, 1, 2, 3, 4, 5});
  at::Tensor loss;
  {
    const ScopedPrecision precision(map.base, at::kCPU);
    const at::Tensor x = points().to(torch::kFloat);
    loss = network.forward(x).to(torch::kFloat).square().sum();
    if (weight_outside)
      loss = loss * 0 + torch::linear(torch::ones({2, 4}), network.block(0).linear->weight).sum();
  }
  loss.backward();
  return network.block(0).linear->weight.grad();
}

TEST(RecomputableModule, RecomputationUsesThePrecisionOfTheForwardPass) {
  const ActivationCheckpointing all{.modules = {"blocks.*", "last"}};
  const at::Tensor full = gradient_in(Precision::kFp32, {});
  for (const PrecisionMap& map :
       {PrecisionMap(Precision::kBf16), PrecisionMap(Precision::kFp16),
        PrecisionMap(Precision::kFp32, {{"blocks.0", Precision::kBf16}}),
        PrecisionMap(Precision::kBf16, {{"blocks.1", Precision::kFp32}})}) {
    const at::Tensor plain = gradient_in(map, {});
    EXPECT_FALSE(plain.equal(full));
    EXPECT_TRUE(gradient_in(map, all).equal(plain));
  }
}

TEST(RecomputableModule, CastsMadeWithoutAGraphAreNotReusedWithOne) {
  const at::Tensor plain = gradient_in(Precision::kBf16, {}, true);
  EXPECT_GT(plain.abs().min().item<double>(), 0);
  EXPECT_TRUE(gradient_in(Precision::kBf16, {.blocks = true}, true).equal(plain));
}

/// Records the strides of its input.
class SeenStrides final : public RecomputableModule {
 public:
  SeenStrides() { weight = register_parameter("weight", torch::ones({1})); }
  bool is_block() const override { return true; }

  at::Tensor weight;
  mutable std::vector<std::vector<std::int64_t>> seen;

 private:
  at::Tensor compute(const at::Tensor& input) const override {
    seen.push_back(input.strides().vec());
    return input * weight;
  }
};

// Kernels choose by all strides, including those of dimensions of size one.
TEST(RecomputableModule, InputKeepsItsStrides) {
  for (const std::vector<std::int64_t>& sizes :
       {std::vector<std::int64_t>{1, 6, 2, 3}, {1, 6, 1, 1}, {1, 1, 4, 4}, {3, 1, 2, 2}, {1, 4}}) {
    const bool is_image = sizes.size() == 4;
    for (const bool by_channel : {false, is_image}) {
      SeenStrides module;
      const ScopedActivationCheckpointing blocks(module, {.blocks = true});
      at::Tensor x = torch::rand(sizes);
      if (by_channel) x = torch::empty(sizes, at::MemoryFormat::ChannelsLast).copy_(x);
      module.forward(x.requires_grad_()).sum().backward();
      EXPECT_THAT(module.seen, ElementsAre(x.strides().vec(), x.strides().vec())) << x.sizes();
    }
  }
}

}  // namespace
}  // namespace stages
