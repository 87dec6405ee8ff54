// Attention with masks is planned with the kernels that torch chooses for it.

#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "stages/machine/counting_allocator.h"
#include "stages/plan/memory_trace.h"
#include "stages/plan/meta_kernels.h"
#include "stages/plan/summarize.h"
#include "tests/support/counted_as_planned.h"
#include "tests/support/scoped_threads.h"

namespace stages {
namespace {

constexpr std::int64_t kBatch = 3, kHeads = 4, kTokens = 48, kWidth = 16;

struct MaskCase {
  std::string name;
  std::vector<std::int64_t> shape;  ///< of the mask; empty: none
  at::ScalarType type = at::kFloat;
  bool is_learned = false;
  std::int64_t key_batch = kBatch;
};

void PrintTo(const MaskCase& one, std::ostream* stream) { *stream << one.name; }

/// Runs one forward and backward pass.
void attend(const MaskCase& one, at::Device device) {
  const auto make = [&](at::IntArrayRef shape, at::ScalarType type = at::kFloat) {
    at::Tensor made = torch::empty(shape, at::TensorOptions(device).dtype(type));
    if (device.is_cpu()) made.fill_(1);
    return made;
  };
  const at::Tensor q = make({kBatch, kHeads, kTokens, kWidth}).requires_grad_(true),
                   k = make({one.key_batch, kHeads, kTokens, kWidth}).requires_grad_(true);
  std::optional<at::Tensor> mask;
  if (!one.shape.empty()) {
    mask = make(one.shape, one.type);
    if (one.is_learned) mask->requires_grad_(true);
  }
  const at::Tensor y = at::scaled_dot_product_attention(q, k, k, mask);
  y.transpose(1, 2).reshape({kBatch, kTokens, kHeads * kWidth}).square().sum().backward();
}

class AttentionMaskTest : public testing::TestWithParam<MaskCase> {};

// The CPU kernel's result has the layout of its query.
TEST(Attention, ResultHasTheLayoutOfTheCpuKernel) {
  register_meta_kernels();
  for (const bool by_token : {false, true}) {
    const auto strides = [&](at::Device device) {
      at::Tensor q = torch::zeros({2, 3, 5, 4}, device);
      if (by_token) q = torch::zeros({2, 5, 3, 4}, device).transpose(1, 2);
      return at::scaled_dot_product_attention(q, q, q).strides().vec();
    };
    const std::vector<std::int64_t> ours = [&] {
      const MemoryTrace trace({.device = at::kCPU, .threads = 1, .model = {}});
      return strides(at::kMeta);
    }();
    EXPECT_EQ(ours, strides(at::kCPU)) << by_token;
  }
}

TEST_P(AttentionMaskTest, CountsAsPlanned) {
  register_meta_kernels();
  const ScopedThreads threads(1);
  const Backend backend{.device = at::kCPU, .threads = 1, .model = {}};
  runner::MemoryPlan plan;
  {
    const MemoryTrace trace(backend);
    attend(GetParam(), at::kMeta);
    plan = summarize(trace, 0, backend, {});
  }
  const CountingAllocator counter;
  attend(GetParam(), at::kCPU);
  expect_counted_as_planned(counter.peak_bytes(), plan, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Masks, AttentionMaskTest,
    testing::Values(MaskCase{"none", {}}, MaskCase{"fixed", {kTokens, kTokens}},
                    MaskCase{"learned", {1, kHeads, kTokens, kTokens}, at::kFloat, true},
                    MaskCase{"of_bools", {kBatch, 1, kTokens, kTokens}, at::kBool},
                    MaskCase{"of_three_dimensions", {kHeads, kTokens, kTokens}},
                    MaskCase{"keys_for_all", {}, at::kFloat, false, 1}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace stages
