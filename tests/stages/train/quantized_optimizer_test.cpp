// An optimizer with 8-bit state. offloaded_optimizer_test.cpp and sharded_optimizer_test.cpp
// combine it with the other ways of storing the state.

#include <stdexcept>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "stages/machine/counting_allocator.h"
#include "stages/plan/memory_trace.h"
#include "stages/plan/meta_kernels.h"
#include "stages/train/optimizer.h"
#include "tests/support/on_test_device.h"
#include "tests/support/optimizer_rules.h"

namespace stages {
namespace {

constexpr Rates kTenthRate{.learning_rate = 0.1, .momentum = {}};

void step(Optimizer& optimizer, at::Tensor parameter, const at::Tensor& gradient,
          const std::optional<at::Tensor>& skip = {}) {
  parameter.mutable_grad() = gradient.clone();
  const at::Tensor scratch = optimizer.prepare();
  optimizer.set_rates({kTenthRate});
  optimizer.step(skip, {}, scratch);
}

at::Tensor gradient_of(const at::Tensor& parameter, int step) {
  return (parameter.detach() * 3 + step).cos();
}

TEST(QuantizedOptimizer, SmallParametersKeepFullPrecision) {
  at::Tensor x = torch::linspace(-1, 1, kSmallestQuantized - 1, here()).requires_grad_(),
             y = x.detach().clone().requires_grad_();
  Optimizer eight(adamw_8bit(0.1), {{"x", x}}), full(adamw(0.1), {{"x", y}});
  EXPECT_FALSE(eight.quantizes());
  for (int i = 0; i < 3; ++i) {
    step(eight, x, gradient_of(x, i));
    step(full, y, gradient_of(y, i));
  }
  EXPECT_TRUE(x.equal(y));
  EXPECT_EQ(eight.state().at("x.mean").scalar_type(), at::kFloat);
}

TEST(QuantizedOptimizer, StateHasAByteForEachElementAndAFloatForEachBlock) {
  const at::Tensor x = torch::ones({70, 64}, here()).requires_grad_();
  Optimizer optimizer(adamw_8bit(0.1), {{"x", x}});
  EXPECT_TRUE(optimizer.quantizes());
  step(optimizer, x, gradient_of(x, 0));
  const NamedTensors state = optimizer.state();
  EXPECT_EQ(state.size(), 5);
  for (const char* const moment : {"x.mean", "x.square"}) {
    EXPECT_EQ(state.at(moment).scalar_type(), at::kByte);
    EXPECT_EQ(state.at(moment).sizes(), x.sizes());
    EXPECT_EQ(state.at(moment + std::string("_absmax")).scalar_type(), at::kFloat);
    EXPECT_EQ(state.at(moment + std::string("_absmax")).sizes(), at::IntArrayRef({18}));
  }
}

/// After the first step without a state, the moments are those of the gradient.
TEST(QuantizedOptimizer, FirstStepMatchesFullPrecision) {
  for (const auto& [eight, full] :
       {std::pair<OptimizerOptions, OptimizerOptions>{adamw_8bit(0.1), adamw(0.1)},
        {SgdOptions{.learning_rate = 0.1, .momentum = 0.9, .state_bits = 8},
         SgdOptions{.learning_rate = 0.1, .momentum = 0.9}}}) {
    at::Tensor x = torch::linspace(-1, 1, 5000, here()).requires_grad_(),
               y = x.detach().clone().requires_grad_();
    Optimizer one(eight, {{"x", x}}), other(full, {{"x", y}});
    step(one, x, gradient_of(x, 0));
    step(other, y, gradient_of(y, 0));
    EXPECT_TRUE(x.equal(y));
    step(one, x, gradient_of(x, 1));
    step(other, y, gradient_of(y, 1));
    EXPECT_FALSE(x.equal(y));
  }
}

/// A parameter of several chunks gets the same update as its parts, which begin at block
/// boundaries.
TEST(QuantizedOptimizer, ResultDoesNotDependOnTheChunkSize) {
  const std::int64_t size = 600'000, half = 256 * 1000;
  at::Tensor x = torch::linspace(-1, 1, size, here()).requires_grad_(),
             a = x.detach().narrow(0, 0, half).clone().requires_grad_(),
             b = x.detach().narrow(0, half, size - half).clone().requires_grad_();
  Optimizer whole(adamw_8bit(0.1), {{"x", x}}), parts(adamw_8bit(0.1), {{"a", a}, {"b", b}});
  for (int i = 0; i < 3; ++i) {
    step(whole, x, gradient_of(x, i));
    a.mutable_grad() = gradient_of(a, i);
    step(parts, b, gradient_of(b, i));
  }
  EXPECT_TRUE(x.equal(torch::cat({a, b})));
  EXPECT_TRUE(whole.state().at("x.mean").equal(
      torch::cat({parts.state().at("a.mean"), parts.state().at("b.mean")})));
  EXPECT_EQ(whole.state().at("x.age").item<float>(), 3);
}

TEST(QuantizedOptimizer, ResultDoesNotDependOnTheLayout) {
  at::Tensor x = torch::randn({300, 100, 3, 3}, here()).requires_grad_(),  // several chunks of rows
      y = x.detach().contiguous(at::MemoryFormat::ChannelsLast).requires_grad_();
  Optimizer one(adamw_8bit(0.1), {{"x", x}}), other(adamw_8bit(0.1), {{"x", y}});
  for (int i = 0; i < 2; ++i) {
    step(one, x, gradient_of(x, i));
    step(other, y, gradient_of(y, i));
  }
  EXPECT_TRUE(x.equal(y));
  for (const auto& [name, tensor] : one.state())
    EXPECT_TRUE(tensor.equal(other.state().at(name))) << name;
}

TEST(QuantizedOptimizer, SkippedStepLeavesNoTrace) {
  const at::Tensor x = torch::linspace(-1, 1, 5000, here()).requires_grad_();
  Optimizer optimizer(adamw_8bit(0.1), {{"x", x}});
  step(optimizer, x, gradient_of(x, 0), torch::zeros({}, here()));
  const at::Tensor before = x.detach().clone();
  NamedTensors state;
  for (const auto& [name, tensor] : optimizer.state()) state.set(name, tensor.clone());
  step(optimizer, x, torch::full({5000}, std::nan(""), here()), torch::ones({}, here()));
  EXPECT_TRUE(x.equal(before));
  for (const auto& [name, tensor] : optimizer.state())
    EXPECT_TRUE(tensor.equal(state.at(name))) << name;
}

TEST(QuantizedOptimizer, StepDoesNotAllocate) {
  for (const OptimizerOptions& rule : kEveryRule) {
    if (state_bits(rule) != 8) continue;
    const at::Tensor x = torch::ones({70, 64}, here()).requires_grad_();
    Optimizer optimizer(rule, {{"x", x}});
    step(optimizer, x, torch::ones_like(x));
    const at::Tensor scratch = optimizer.prepare(), skip = torch::zeros({}, here());
    const CountingAllocator counter;
    optimizer.step(skip, {}, scratch);
    EXPECT_EQ(counter.peak_bytes(), 0) << "rule " << rule.index();
  }
}

TEST(QuantizedOptimizer, DryRunCountsCodesAndOneChunk) {
  register_meta_kernels();
  constexpr std::int64_t kElements = 10'000'000;
  const MemoryTrace trace({.device = at::kCUDA, .model = {}});
  at::Tensor x = torch::empty({kElements}, at::device(at::kMeta)).requires_grad_();
  Optimizer optimizer(adamw_8bit(0.1), {{"x", x}});
  x.mutable_grad() = torch::empty_like(x);
  const std::size_t first = trace.events().size();
  {
    const at::Tensor scratch = optimizer.prepare();
    optimizer.step({}, {}, scratch);
  }
  const auto events = trace.events();
  const auto storages = trace.storages();
  std::int64_t live = 0, most = 0;
  for (std::size_t i = first; i < events.size(); ++i) {
    live += (events[i].is_birth ? 1 : -1) * storages[events[i].storage].bytes;
    most = std::max(most, live);
  }
  constexpr std::int64_t kBlocks = (kElements + 255) / 256, kState = 2 * (kElements + 4 * kBlocks),
                         kChunk = 1 << 18, kBytesInChunk = 4 + 8 + 1 + 4 + 1 + 2 * 4;
  EXPECT_EQ(live, kState + 4);
  EXPECT_GE(most - live, kChunk * kBytesInChunk);
  EXPECT_LE(most - live, kChunk * (kBytesInChunk + 1));
}

TEST(QuantizedOptimizer, StateOfAnotherPrecisionIsRejected) {
  at::Tensor x = torch::linspace(-1, 1, 5000, here()).requires_grad_(),
             y = x.detach().clone().requires_grad_();
  Optimizer eight(adamw_8bit(0.1), {{"x", x}}), full(adamw(0.1), {{"x", y}});
  step(eight, x, gradient_of(x, 0));
  step(full, y, gradient_of(y, 0));
  EXPECT_THROW(eight.load_state(full.state()), std::invalid_argument);
  EXPECT_THROW(full.load_state(eight.state()), std::invalid_argument);
}

TEST(With8bitState, ReturnsNulloptForUnsupportedOptimizers) {
  EXPECT_EQ(with_8bit_state(adamw(0.1)), OptimizerOptions(adamw_8bit(0.1)));
  EXPECT_EQ(with_8bit_state(adamw_8bit(0.1)), std::nullopt);
  EXPECT_EQ(with_8bit_state(SgdOptions{.learning_rate = 0.1}), std::nullopt);
  EXPECT_EQ(with_8bit_state(AdafactorOptions{}), std::nullopt);
  EXPECT_EQ(with_8bit_state(MuonOptions{}), std::nullopt);
  AdamOptions amsgrad = adamw(0.1);
  amsgrad.amsgrad = true;
  EXPECT_EQ(with_8bit_state(amsgrad), std::nullopt);
}

}  // namespace
}  // namespace stages
