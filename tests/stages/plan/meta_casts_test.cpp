#include "stages/numerics/precision_map.h"

#include <algorithm>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "stages/machine/counting_allocator.h"
#include "stages/plan/convolution_bound.h"
#include "stages/plan/meta_kernels.h"
#include "stages/plan/summarize.h"
#include "tests/support/traced_tower.h"

namespace stages {
namespace {

const at::Device kMeta(at::kMeta);

class MetaAutocastTest : public testing::Test {
 protected:
  MetaAutocastTest() { register_meta_kernels(); }
  const at::Tensor x = torch::empty({4, 8}, kMeta),
                   w = torch::empty({8, 8}, kMeta).requires_grad_(true);
};

TEST_F(MetaAutocastTest, ProductsRunInHalfPrecision) {
  const ScopedPrecision precision(Precision::kBf16, kMeta);
  EXPECT_EQ(x.mm(w).scalar_type(), at::kBFloat16);
  EXPECT_EQ(torch::linear(x, w).scalar_type(), at::kBFloat16);
  EXPECT_EQ((x + x).scalar_type(), at::kFloat);
  EXPECT_EQ(current_precision(kMeta), Precision::kBf16);
}

TEST_F(MetaAutocastTest, EndsWithTheScope) {
  {
    const ScopedPrecision precision(Precision::kFp16, kMeta);
    EXPECT_EQ(x.mm(w).scalar_type(), at::kHalf);
    const ScopedPrecision inner(Precision::kFp32, kMeta);
    EXPECT_EQ(x.mm(w).scalar_type(), at::kFloat);
  }
  EXPECT_EQ(x.mm(w).scalar_type(), at::kFloat);
  EXPECT_EQ(current_precision(kMeta), Precision::kFp32);
}

TEST_F(MetaAutocastTest, EachDeviceHasItsOwnLists) {
  const auto softmax_type = [&](at::DeviceType device) {
    const MemoryTrace trace({.device = device, .model = {}});
    const ScopedPrecision precision(Precision::kBf16, kMeta);
    return x.mm(w).softmax(1).scalar_type();
  };
  EXPECT_EQ(softmax_type(at::kCPU), at::kBFloat16);
  EXPECT_EQ(softmax_type(at::kCUDA), at::kFloat);
}

TEST_F(MetaAutocastTest, CpuListsMatchTorch) {
  const at::Tensor y = torch::rand({4, 8}), v = torch::rand({8, 8});
  const auto types = [](const at::Tensor& a, const at::Tensor& b) {
    const at::Tensor product = a.mm(b), labels = torch::zeros({4}, a.options().dtype(torch::kLong));
    std::vector<at::ScalarType> result;
    for (const at::Tensor& one :
         {product, torch::linear(a, b), torch::matmul(a, b), product.softmax(1),
          product.log_softmax(1), torch::layer_norm(product, {8}), torch::gelu(product),
          product.sigmoid(), product.exp(), product.sum(), torch::cat({a, product}),
          torch::stack({product, product}), at::cross_entropy_loss(product, labels),
          torch::mse_loss(product, product), product + a, torch::cdist(product, product)})
      result.push_back(one.scalar_type());
    return result;
  };
  std::vector<at::ScalarType> expected;
  {
    const ScopedPrecision precision(Precision::kBf16, at::kCPU);
    expected = types(y, v);
  }
  const ScopedPrecision precision(Precision::kBf16, kMeta);
  EXPECT_EQ(types(x, w.detach()), expected);
}

TEST_F(MetaAutocastTest, WeightIsCastOncePerScope) {
  MemoryTrace trace({});
  const at::Tensor weight = torch::empty({8, 8}, kMeta).requires_grad_(true),
                   input = torch::empty({4, 8}, kMeta);
  const auto casts = [&] {
    std::int64_t count = 0;
    for (const TracedStorage& storage : trace.storages()) count += storage.is_cast;
    return count;
  };
  for (std::int64_t scope = 1; scope <= 2; ++scope) {
    const ScopedPrecision precision(Precision::kBf16, kMeta);
    input.mm(weight);
    input.mm(weight);
    EXPECT_EQ(casts(), scope);
  }
}

/// An order by address would differ between processes, and so would the plan.
TEST_F(MetaAutocastTest, CastsAreFreedInOrderOfCreation) {
  MemoryTrace trace({});
  const at::Tensor input = torch::empty({4, 8}, kMeta);
  std::vector<at::Tensor> weights;
  for (int i = 0; i < 40; ++i) weights.push_back(torch::empty({8, 8}, kMeta).requires_grad_(true));
  {
    const ScopedPrecision precision(Precision::kBf16, kMeta);
    for (const at::Tensor& weight : weights) input.mm(weight);
  }
  std::vector<std::size_t> freed;
  for (const TraceEvent& event : trace.events())
    if (!event.is_birth && trace.storages()[event.storage].is_cast) freed.push_back(event.storage);
  EXPECT_EQ(freed.size(), weights.size());
  EXPECT_TRUE(std::ranges::is_sorted(freed));
}

TEST_F(MetaAutocastTest, FrozenWeightIsCastAtEachUse) {
  MemoryTrace trace({});
  const at::Tensor weight = torch::empty({8, 8}, kMeta), input = torch::empty({4, 8}, kMeta);
  const ScopedPrecision precision(Precision::kBf16, kMeta);
  const std::size_t before = trace.storages().size();
  input.mm(weight);
  input.mm(weight);
  EXPECT_EQ(trace.storages().size(), before + 6);
}

TEST_F(MetaAutocastTest, GradientsAreInFloat32) {
  const at::Tensor leaf = torch::empty({8, 8}, kMeta).requires_grad_(true);
  at::Tensor loss;
  {
    const ScopedPrecision precision(Precision::kBf16, kMeta);
    loss = x.mm(leaf).sum();
  }
  loss.backward();
  EXPECT_EQ(leaf.grad().scalar_type(), at::kFloat);
}

TEST_F(MetaAutocastTest, PlanListsTheCasts) {
  const Backend backend;
  MemoryTrace trace(backend);
  TowerRun run({.batch = 32, .precision = Precision::kBf16}, at::kMeta);
  run.step();
  const runner::MemoryPlan plan = summarize(trace, 0, backend, {});
  const auto is_cache = [](const runner::NamedBytes& term) { return term.name == "cast_cache"; };
  EXPECT_TRUE(std::ranges::any_of(plan.terms, is_cache));
}

TEST_F(MetaAutocastTest, TrainingMatchesThePlan) {
  const TowerTraining training{.batch = 4,
                               .image_size = 224,
                               .width = 96,
                               .heads = 3,
                               .activation = Activation::kGelu,
                               .precision = Precision::kBf16};
  std::int64_t counted = 0;
  {
    const CountingAllocator counter;
    TowerRun run(training, at::kCPU);
    run.step();
    counted = counter.peak_bytes();
  }
  const Backend backend{.threads = at::get_num_threads(), .model = {}};
  const MemoryTrace trace(backend);
  TowerRun run(training, at::kMeta);
  run.step();
  const runner::MemoryPlan plan = summarize(trace, 0, backend, {});
  EXPECT_GE(counted, plan.live);
  EXPECT_LE(counted, plan.needed);
  // In addition to its tensors and the gaps between them, the tower needs at most its patches or
  // the scratch memory of the largest product.
  constexpr std::int64_t kTokens = 4 * (14 * 14 + 1), kWidth = 96, kInner = 4 * kWidth;
  const meta::ConvolutionShape patches{.batch = 4,
                                       .in = 3,
                                       .out = kWidth,
                                       .kernel_height = 16,
                                       .kernel_width = 16,
                                       .stride = 16,
                                       .in_height = 224,
                                       .in_width = 224,
                                       .out_height = 14,
                                       .out_width = 14,
                                       .element_bytes = 2,
                                       .threads = backend.threads};
  const std::int64_t copies = meta::blocked_input(patches) + meta::blocked_result(patches);
  std::int64_t most =
      copies +
      std::max(meta::blocked_weight(patches) + meta::forward_scratch(patches),
               meta::blocked_weight_gradient(patches) + meta::weight_gradient_scratch(patches));
  for (const meta::ProductShape& shape :
       {meta::ProductShape{.rows = kTokens, .inner = kWidth, .columns = kInner},
        meta::ProductShape{.rows = kTokens, .inner = kInner, .columns = kWidth},
        meta::ProductShape{.rows = kInner, .inner = kTokens, .columns = kWidth}}) {
    most = std::max(most, meta::half_product_scratch(shape, backend.threads));
  }
  EXPECT_LE(peak_of(trace), plan.live + most);
}

}  // namespace
}  // namespace stages
