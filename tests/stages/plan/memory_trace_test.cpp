#include "stages/plan/memory_trace.h"

#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <utility>

#include <gmock/gmock.h>
#include <torch/autograd.h>
#include <torch/types.h>

#include "stages/model/transformer_block.h"
#include "stages/plan/meta_kernels.h"
#include "stages/tensor/loss_term.h"
#include "stages/tensor/module_names.h"
#include "tests/support/traced_tower.h"

namespace stages {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const at::TensorOptions kMetaFloat = at::TensorOptions(at::kMeta).dtype(at::kFloat);

/// Returns each event as +bytes or -bytes.
std::vector<std::int64_t> bytes(const MemoryTrace& trace) {
  std::vector<std::int64_t> result;
  for (const TraceEvent& event : trace.events())
    result.push_back((event.is_birth ? 1 : -1) * trace.storages()[event.storage].bytes);
  return result;
}

std::int64_t bytes_of(const MemoryTrace& trace, Owner owner) {
  std::int64_t sum = 0;
  for (const TracedStorage& storage : trace.storages())
    sum += storage.owner == owner ? storage.bytes : 0;
  return sum;
}

class MemoryTraceTest : public testing::Test {
 protected:
  MemoryTraceTest() { register_meta_kernels(); }
};

TEST_F(MemoryTraceTest, RecordsAllocationsAndFrees) {
  const MemoryTrace trace({});
  at::Tensor first = torch::empty({4, 8}, kMetaFloat);
  const at::Tensor second = torch::empty({3}, kMetaFloat.dtype(at::kLong));
  first.reset();
  EXPECT_THAT(bytes(trace), ElementsAre(128, 24, -128));
}

TEST_F(MemoryTraceTest, FinishReturnsTheRecordAndEndsTheTrace) {
  auto trace = std::make_unique<MemoryTrace>(Backend{});
  at::Tensor kept = torch::empty({10}, kMetaFloat);
  const RecordedWork work = trace->finish();
  ASSERT_EQ(work.storages.size(), 1U);
  EXPECT_EQ(work.storages[0].bytes, 40);
  const MemoryTrace next({});
  trace->own(kept, Owner::kParameter, "kept");
  kept.reset();
  trace.reset();
  torch::empty({3}, kMetaFloat);
  EXPECT_EQ(work.events.size(), 1U);
  EXPECT_THAT(bytes(next), ElementsAre(12, -12));
}

TEST_F(MemoryTraceTest, ViewsAreNotStorages) {
  const MemoryTrace trace({});
  const at::Tensor x = torch::empty({4, 8}, kMetaFloat);
  const at::Tensor y = x.transpose(0, 1).slice(0, 2, 4).view({2, 2, 2});
  EXPECT_THAT(bytes(trace), ElementsAre(128));
}

TEST_F(MemoryTraceTest, StorageMayOutliveTheTrace) {
  at::Tensor left;
  {
    const MemoryTrace trace({});
    left = torch::empty({4}, kMetaFloat);
  }
  const MemoryTrace trace({});
  left.reset();
  EXPECT_THAT(bytes(trace), IsEmpty());
}

TEST_F(MemoryTraceTest, OlderStorageMayBeFreedDuringTheTrace) {
  at::Tensor older = torch::empty({4}, kMetaFloat);
  MemoryTrace trace({});
  trace.own(older, Owner::kInput, "older");
  older.reset();
  EXPECT_THAT(bytes(trace), IsEmpty());
}

TEST_F(MemoryTraceTest, SecondTraceIsRejected) {
  const MemoryTrace trace({});
  EXPECT_THROW(MemoryTrace({}), std::logic_error);
  const at::Tensor x = torch::empty({2}, kMetaFloat);
  EXPECT_THAT(bytes(trace), ElementsAre(8));
}

TEST_F(MemoryTraceTest, ResizeIsRecorded) {
  const MemoryTrace trace({});
  at::Tensor x = torch::empty({2}, kMetaFloat);
  x.resize_({100});
  EXPECT_THAT(bytes(trace), ElementsAre(8, 400, -8));
  EXPECT_THAT(x.sizes(), ElementsAre(100));
}

TEST_F(MemoryTraceTest, RecordsTheOutermostOperationAndItsShape) {
  const MemoryTrace trace({});
  const at::Tensor x = torch::empty({2, 3, 8}, kMetaFloat),
                   weight = torch::empty({5, 8}, kMetaFloat), bias = torch::empty({5}, kMetaFloat);
  const at::Tensor y = torch::linear(x, weight, bias);
  const TracedStorage last = trace.storages().back();
  EXPECT_EQ(last.operation, "aten::linear");
  EXPECT_THAT(last.shape, ElementsAre(2, 3, 5));
  EXPECT_EQ(last.dtype, at::kFloat);
}

TEST_F(MemoryTraceTest, LossTermLabelsItsTensorsAndThoseOfItsGradient) {
  MemoryTrace trace({});
  const at::Tensor x = torch::empty({4, 8}, kMetaFloat).requires_grad_(true);
  at::Tensor loss;
  {
    const ScopedLossTerm whole("loss");
    {
      const ScopedLossTerm term("loss.covariance");
      loss = x.t().matmul(x).square().sum();
    }
    loss = loss * 2;
  }
  loss.backward();
  std::vector<std::string> names;
  for (const TracedStorage& storage : trace.storages()) {
    if (storage.shape == std::vector<std::int64_t>{8, 8})
      names.push_back(storage.operation + " of " + storage.name);
  }
  EXPECT_THAT(names, testing::Contains("aten::matmul of loss.covariance"));
  EXPECT_THAT(names, testing::Contains("PowBackward0 of loss.covariance"));
  EXPECT_EQ(trace.storages().front().name, "");
}

TEST_F(MemoryTraceTest, RecordsThePhase) {
  MemoryTrace trace({});
  const ScopedPhase forward(StepPhase::kForward);
  at::Tensor x = torch::empty({2}, kMetaFloat);
  const ScopedPhase backward(StepPhase::kBackward);
  x.reset();
  EXPECT_EQ(trace.storages()[0].phase, StepPhase::kForward);
  ASSERT_EQ(trace.events().size(), 2);
  EXPECT_EQ(trace.events()[1].phase, StepPhase::kBackward);
}

TEST_F(MemoryTraceTest, OwnerCanBeSetAtAnyTime) {
  MemoryTrace trace({});
  const at::Tensor weight = torch::empty({8, 8}, kMetaFloat).requires_grad_(true),
                   x = torch::empty({2, 8}, kMetaFloat);
  trace.own(x, Owner::kInput, "image");
  const at::Tensor y = x.mm(weight).sigmoid();
  trace.own(y, Owner::kBuffer, "y");
  const auto storages = trace.storages();
  EXPECT_EQ(storages[1].owner, Owner::kInput);
  EXPECT_EQ(storages[1].name, "image");
  EXPECT_EQ(storages[3].owner, Owner::kBuffer);
}

// In sigmoid(x W + b) V, the first product saves x for W's gradient, and the sigmoid saves its
// result, which the second product saves too. The parameters are also saved, but are not
// activations.
TEST_F(MemoryTraceTest, SavedActivationsOfTwoLayersMatchAHandCalculation) {
  MemoryTrace trace({});
  const auto parameter = [](at::IntArrayRef shape) {
    return torch::empty(shape, kMetaFloat).requires_grad_(true);
  };
  const at::Tensor w = parameter({16, 8}), b = parameter({16}), v = parameter({4, 16});
  const at::Tensor x = torch::empty({10, 8}, kMetaFloat);
  trace.own(x, Owner::kInput, "x");
  const at::Tensor y = torch::linear(torch::linear(x, w, b).sigmoid(), v);
  EXPECT_EQ(bytes_of(trace, Owner::kSavedActivation), 10 * 16 * 4);
  EXPECT_EQ(bytes_of(trace, Owner::kInput), 10 * 8 * 4);
}

// Softmax saves its result, layer_norm its input and two statistics per row, gelu its input.
TEST_F(MemoryTraceTest, SavedActivationsOfOtherLayersMatchAHandCalculation) {
  const auto saved = [](const std::function<at::Tensor(const at::Tensor&)>& layer) {
    MemoryTrace trace({});
    const at::Tensor weight = torch::empty({8, 8}, kMetaFloat).requires_grad_(true);
    const at::Tensor x = torch::empty({10, 8}, kMetaFloat);
    trace.own(x, Owner::kInput, "x");
    const at::Tensor y = layer(x.mm(weight));
    return bytes_of(trace, Owner::kSavedActivation);
  };
  EXPECT_EQ(saved([](const at::Tensor& x) { return x; }), 0);
  EXPECT_EQ(saved([](const at::Tensor& x) { return x.softmax(1); }), 320);
  EXPECT_EQ(saved([](const at::Tensor& x) { return torch::gelu(x); }), 320);
  EXPECT_EQ(saved([](const at::Tensor& x) { return torch::layer_norm(x, {8}); }), 320 + 2 * 40);
  EXPECT_EQ(saved([](const at::Tensor& x) { return x * 2; }), 0);
}

TEST_F(MemoryTraceTest, LeavesNoHooksInTheBackwardPass) {
  const at::Tensor weight = torch::rand({4, 4}).requires_grad_(true);
  { const MemoryTrace trace({}); }
  weight.mm(weight).sum().backward();
  EXPECT_TRUE(weight.grad().allclose(
      (weight.sum(0).unsqueeze(0) + weight.sum(1).unsqueeze(1)).t().detach()));
}

TEST_F(MemoryTraceTest, BackwardPassOnOtherDevicesIsUnchanged) {
  const MemoryTrace trace({});
  const at::Tensor weight = torch::rand({4, 4}).requires_grad_(true);
  weight.mm(weight).sum().backward();
  EXPECT_TRUE(weight.grad().allclose(
      (weight.sum(0).unsqueeze(0) + weight.sum(1).unsqueeze(1)).t().detach()));
}

TEST_F(MemoryTraceTest, SavedActivationsHaveTheirModulePath) {
  MemoryTrace trace({});
  TowerRun run({}, at::kMeta);
  const ScopedModuleNames names(*run.network, "model");
  run.step();
  std::set<std::string> paths;
  for (const TracedStorage& storage : trace.storages()) {
    if (storage.owner == Owner::kSavedActivation) paths.insert(storage.name);
  }
  EXPECT_TRUE(paths.contains("model.vision_model.encoder.layers.1.mlp.fc1"));
  EXPECT_TRUE(paths.contains("model.vision_model.encoder.layers.0.self_attn"));
  EXPECT_TRUE(paths.contains("model.vision_model.encoder.layers.0.layer_norm1"));
  EXPECT_FALSE(paths.contains("layers"));
}

TEST_F(MemoryTraceTest, SecondStepLeavesNothing) {
  const MemoryTrace trace({});
  TowerRun run({}, at::kMeta);
  const auto live = [&] {
    const std::vector<std::int64_t> all = bytes(trace);
    return std::accumulate(all.begin(), all.end(), std::int64_t{0});
  };
  run.step();
  const std::int64_t after_first = live();
  run.step();
  EXPECT_EQ(live(), after_first);
}

// Neither nested operations nor nodes of the backward pass count, but the operations that these
// nodes run do.
TEST_F(MemoryTraceTest, CountsLaunchedOperations) {
  const MemoryTrace trace({});
  const at::Tensor x = torch::empty({10, 8}, kMetaFloat),
                   w = torch::empty({16, 8}, kMetaFloat).requires_grad_(true);
  std::int64_t before = trace.launches();
  const auto started = [&] { return trace.launches() - std::exchange(before, trace.launches()); };
  at::Tensor y = torch::linear(x, w);
  EXPECT_EQ(started(), 1);
  y = activate(Activation::kQuickGelu, y);
  EXPECT_EQ(started(), 4) << "memory, and three operators that share one autograd function";
  const at::Tensor dy = torch::empty_like(y);
  started();
  const at::Tensor dw = torch::autograd::grad({y}, {w}, {dy})[0];
  EXPECT_GE(started(), 3 + 1) << "of the function, and a product";
}

// A product of (10, 8) and (8, 16) has 2 · 10 · 8 · 16 flops, and the backward pass twice as many.
TEST_F(MemoryTraceTest, CountsTheFlopsOfAProductAndItsGradients) {
  const MemoryTrace trace({});
  const at::Tensor x = torch::empty({10, 8}, kMetaFloat).requires_grad_(true),
                   w = torch::empty({8, 16}, kMetaFloat).requires_grad_(true);
  const at::Tensor y = x.mm(w);
  EXPECT_EQ(trace.flops(), 2560);
  y.sum().backward();
  EXPECT_EQ(trace.flops(), 3 * 2560);
}

// The result has shape (2, 4, 6, 6), and each element is a sum of 3 · 3 · 3 products.
TEST_F(MemoryTraceTest, CountsTheFlopsOfAConvolutionAndItsGradients) {
  const MemoryTrace trace({});
  const at::Tensor x = torch::empty({2, 3, 8, 8}, kMetaFloat).requires_grad_(true),
                   w = torch::empty({4, 3, 3, 3}, kMetaFloat).requires_grad_(true);
  const at::Tensor y = torch::conv2d(x, w);
  EXPECT_EQ(trace.flops(), 2 * 288 * 27);
  y.sum().backward();
  EXPECT_EQ(trace.flops(), 3 * 2 * 288 * 27);
}

// Five tokens and two heads of width 4: per head, two products of (5, 4) and (4, 5) in the forward
// pass and five in the backward pass.
TEST_F(MemoryTraceTest, CountsTheFlopsOfAttention) {
  const MemoryTrace trace({});
  const at::Tensor q = torch::empty({1, 2, 5, 4}, kMetaFloat).requires_grad_(true);
  const at::Tensor y = torch::scaled_dot_product_attention(q, q, q);
  EXPECT_EQ(trace.flops(), 2 * 2 * 2 * 100);
  y.sum().backward();
  EXPECT_EQ(trace.flops(), (2 + 5) * 2 * 2 * 100);
}

// Without a trace, CPUs use torch's plain implementation, which saves the attention weights.
TEST_F(MemoryTraceTest, AttentionIsUnchangedOutsideATrace) {
  const at::Tensor q = torch::empty({1, 2, 5, 4}, kMetaFloat).requires_grad_(true);
  EXPECT_EQ(torch::scaled_dot_product_attention(q, q, q).grad_fn()->name(), "UnsafeViewBackward0");
}

}  // namespace
}  // namespace stages
