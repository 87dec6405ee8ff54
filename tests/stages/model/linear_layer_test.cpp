#include "stages/model/linear_layer.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>

#include "stages/machine/counting_allocator.h"
#include "stages/numerics/precision_map.h"
#include "stages/plan/memory_trace.h"
#include "stages/plan/meta_kernels.h"
#include "stages/plan/recorder.h"

namespace stages {
namespace {

using Tensors = std::vector<at::Tensor>;

at::Tensor noise(at::IntArrayRef shape, std::uint64_t seed, at::ScalarType type) {
  return torch::randn(shape, at::detail::createCPUGenerator(seed), type).requires_grad_(true);
}

/// Returns the result of a layer, and the gradients of a function of it with respect to all its
/// inputs.
Tensors linear_with_gradients(const Tensors& inputs,
                              const std::function<at::Tensor(const Tensors&)>& layer) {
  const at::Tensor y = layer(inputs);
  const at::Tensor dy = noise(y.sizes(), 99, y.scalar_type()).detach();
  Tensors result = torch::autograd::grad({y}, inputs, {dy});
  result.push_back(y.detach());
  return result;
}

void expect_close_tensors(const Tensors& ours, const Tensors& theirs, double relative,
                          const std::string& what) {
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    EXPECT_EQ(ours[i].sizes(), theirs[i].sizes());
    const double scale = theirs[i].abs().max().item<double>();
    EXPECT_LT((ours[i] - theirs[i]).abs().max().item<double>(), relative * scale)
        << what << " " << i;
  }
}

struct LayerShape {
  std::vector<std::int64_t> x;
  std::int64_t out;
};
const LayerShape kShapes[] = {
    {{3, 8}, 5}, {{2, 5, 8}, 7}, {{2, 3, 4, 8}, 1}, {{0, 8}, 5}, {{2, 50, 384}, 768}};

double tolerance(at::ScalarType type) { return type == torch::kDouble ? 1e-13 : 1e-5; }

TEST(LinearLayerTest, MatchesTorchIncludingGradients) {
  for (const at::ScalarType type : {torch::kDouble, torch::kFloat}) {
    for (const auto& [shape, out] : kShapes) {
      if (shape[0] == 0) continue;
      Tensors inputs = {noise(shape, 1, type), noise({out, shape.back()}, 2, type),
                        noise({out}, 3, type)};
      expect_close_tensors(
          linear_with_gradients(
              inputs, [](const Tensors& in) { return linear_layer(in[0], in[1], in[2]); }),
          linear_with_gradients(
              inputs, [](const Tensors& in) { return torch::linear(in[0], in[1], in[2]); }),
          tolerance(type), "with a bias");
      inputs.pop_back();
      expect_close_tensors(
          linear_with_gradients(inputs,
                                [](const Tensors& in) { return linear_layer(in[0], in[1], {}); }),
          linear_with_gradients(inputs,
                                [](const Tensors& in) { return torch::linear(in[0], in[1]); }),
          tolerance(type), "without one");
    }
  }
}

TEST(LinearLayerTest, AdapterIsAddedWithItsGradients) {
  for (const at::ScalarType type : {torch::kDouble, torch::kFloat}) {
    for (const auto& [shape, out] : kShapes) {
      if (shape[0] == 0) continue;
      const std::int64_t in = shape.back();
      const Tensors inputs = {noise(shape, 1, type), noise({out, in}, 2, type),
                              noise({out}, 3, type), noise({2, in}, 4, type),
                              noise({out, 2}, 5, type)};
      expect_close_tensors(
          linear_with_gradients(inputs,
                                [](const Tensors& x) {
                                  return linear_layer(x[0], x[1], x[2], LowRank{x[3], x[4], 0.5});
                                }),
          linear_with_gradients(inputs,
                                [](const Tensors& x) {
                                  return torch::linear(x[0], x[1], x[2]) +
                                         0.5 * torch::linear(torch::linear(x[0], x[3]), x[4]);
                                }),
          tolerance(type), "adapted");
    }
  }
}

TEST(LinearLayerTest, AcceptsNonContiguousRows) {
  const at::Tensor all = noise({40, 50, 768}, 1, torch::kFloat).detach();
  const at::Tensor weight = noise({768, 768}, 2, torch::kFloat).detach();
  const auto close = [&](const at::Tensor& x) {
    return linear_layer(x, weight, {}).allclose(torch::linear(x.contiguous(), weight), 1e-4, 1e-3);
  };
  EXPECT_TRUE(close(all.narrow(1, 0, 1)));
  EXPECT_TRUE(close(all.transpose(0, 1)));
  EXPECT_TRUE(close(all.narrow(1, 3, 20)));
  EXPECT_TRUE(linear_layer(all.narrow(0, 0, 0), weight, {}).sizes() ==
              at::IntArrayRef({0, 50, 768}));
}

TEST(LinearLayerTest, SavesOnlyWhatTheGradientsNeed) {
  const at::Tensor x = noise({4, 8}, 1, torch::kFloat), weight = noise({5, 8}, 2, torch::kFloat);
  const auto kept = [](const at::Tensor& of, const at::Tensor& by) {
    std::vector<const void*> memory;
    const ScopedSavedTensors saved(
        [&](const at::Tensor& tensor) { memory.push_back(tensor.const_data_ptr()); });
    linear_layer(of, by, {});
    return memory;
  };
  EXPECT_EQ(kept(x, weight.detach()), std::vector<const void*>{weight.const_data_ptr()});
  EXPECT_EQ(kept(x.detach(), weight), std::vector<const void*>{x.const_data_ptr()});
  EXPECT_TRUE(kept(x.detach(), weight.detach()).empty());
}

// On some processors, oneDNN computes the product of a large layer. On all of them, the result is
// the same in each run.
TEST(LinearLayerTest, IsDeterministic) {
  const Tensors inputs = {noise({8, 50, 768}, 1, torch::kFloat),
                          noise({3072, 768}, 2, torch::kFloat), noise({3072}, 3, torch::kFloat)};
  const auto once = [&] {
    return linear_with_gradients(
        inputs, [](const Tensors& in) { return linear_layer(in[0], in[1], in[2]); });
  };
  const Tensors first = once(), second = once();
  for (std::size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(first[i].equal(second[i])) << i;
}

// Whichever library multiplies, the plan includes the temporary memory of its kernel.
TEST(LinearLayerTest, PlanCountsItsMemory) {
  register_meta_kernels();
  for (const auto& [in, out] :
       {std::pair<std::int64_t, std::int64_t>{768, 768}, {3072, 768}, {768, 3072}, {128, 512}}) {
    const std::int64_t rows = 800;
    const at::Tensor x = noise({rows, in}, 1, torch::kFloat).detach(),
                     weight = noise({out, in}, 2, torch::kFloat).detach();
    const auto measured = [&] {
      const CountingAllocator counter;
      linear_layer(x, weight, {});
      return counter.peak_bytes();
    }();
    const at::Tensor outline = torch::empty({rows, in}, at::kMeta),
                     weight_outline = torch::empty({out, in}, at::kMeta);
    const MemoryTrace trace({.threads = at::get_num_threads()});
    linear_layer(outline, weight_outline, {});
    std::int64_t live = 0, planned = 0;
    for (const TraceEvent& event : trace.events()) {
      live += (event.is_birth ? 1 : -1) * trace.storages()[event.storage].bytes;
      planned = std::max(planned, live);
    }
    EXPECT_GE(planned, measured) << in << " " << out;
    EXPECT_LE(
        planned - meta::float_product_scratch({.rows = rows, .inner = in}, at::get_num_threads()),
        measured)
        << in << " " << out;
  }
}

TEST(LinearLayerTest, PlannedScratchDependsOnTheProcessor) {
  register_meta_kernels();
  for (const bool multiplies : {true, false}) {
    Backend backend{.threads = 2};
    backend.processor.onednn_multiplies = multiplies;
    const at::Tensor x = torch::empty({800, 768}, at::kMeta),
                     weight = torch::empty({3072, 768}, at::kMeta);
    const MemoryTrace trace(backend);
    linear_layer(x, weight, {});
    const std::vector<TracedStorage> storages = trace.storages();
    const std::int64_t scratch = meta::float_product_scratch({.rows = 800, .inner = 768}, 2);
    EXPECT_GT(scratch, 0);
    const auto is_it = [&](const TracedStorage& one) {
      return one.is_scratch && one.bytes == scratch;
    };
    EXPECT_EQ(std::ranges::count_if(storages, is_it), multiplies ? 1 : 0);
  }
}

TEST(LinearLayerTest, LargeProductUsesOneDnnOnSupportedProcessors) {
  const at::Tensor x = torch::empty({800, 768}, at::kMeta), few = x.slice(0, 0, 7),
                   weight = torch::empty({3072, 768}, at::kMeta);
  for (const bool multiplies : {true, false}) {
    Backend backend{.threads = 2};
    backend.processor.onednn_multiplies = multiplies;
    const MemoryTrace trace(backend);
    EXPECT_EQ(has_torch_product(x, weight), !multiplies);
    EXPECT_TRUE(has_torch_product(few, weight));
    EXPECT_TRUE(has_torch_product(x.to(torch::kDouble), weight.to(torch::kDouble)));
    EXPECT_FALSE(has_torch_product(x.to(torch::kBFloat16), weight.to(torch::kBFloat16)));
  }
  Backend gpu{.threads = 2};
  gpu.device = at::kCUDA;
  const MemoryTrace trace(gpu);
  EXPECT_FALSE(has_torch_product(few, weight));
}

TEST(LinearLayerTest, MatchesTorchUnderAutocast) {
  const at::Tensor x = noise({4, 8}, 1, torch::kFloat), weight = noise({5, 8}, 2, torch::kFloat);
  const ScopedPrecision precision(Precision::kBf16, at::kCPU);
  EXPECT_EQ(linear_layer(x, weight, {}).scalar_type(), torch::kBFloat16);
  EXPECT_FALSE(takes_adapter(x, weight, torch::kFloat));
  EXPECT_FALSE(has_torch_product(x, weight));
}

TEST(LinearLayerTest, SecondDerivativeMatchesTheProduct) {
  const at::Tensor x = noise({4, 8}, 1, torch::kDouble), weight = noise({5, 8}, 2, torch::kDouble);
  const auto second = [&](const at::Tensor& y) {
    const at::Tensor dx = torch::autograd::grad({y.pow(3).sum()}, {x}, {}, /*retain_graph=*/true,
                                                /*create_graph=*/true)[0];
    return torch::autograd::grad({dx.square().sum()}, {weight})[0];
  };
  EXPECT_TRUE(
      second(linear_layer(x, weight, {})).allclose(second(torch::linear(x, weight)), 1e-12, 1e-12));
  const LowRank adapter{noise({2, 8}, 3, torch::kDouble), noise({5, 2}, 4, torch::kDouble), 1};
  EXPECT_THROW(second(linear_layer(x, weight, {}, adapter)), std::logic_error);
}

}  // namespace
}  // namespace stages
