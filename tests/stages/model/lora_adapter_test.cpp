#include "stages/model/adaptable_layer.h"

#include <gmock/gmock.h>
#include <torch/nn/functional/fold.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "stages/model/layers.h"
#include "stages/random/apply_dropout.h"

namespace stages {
namespace {

constexpr double kScaling = 1.75, kProbability = 0.4;

at::Tensor numbers(at::IntArrayRef shape, std::uint64_t seed) {
  return torch::randn(shape, at::detail::createCPUGenerator(seed), torch::kFloat64);
}

/// A linear layer with 5 inputs and 4 outputs, frozen weights and an adapter of rank 2.
struct AdaptedLinear {
  explicit AdaptedLinear(double dropout, at::ScalarType type = torch::kFloat64)
      : layer(std::make_shared<Linear>(5, 4, true, type)) {
    const torch::NoGradGuard no_graph;
    layer->weight.copy_(numbers({4, 5}, 1));
    layer->bias.copy_(numbers({4}, 2));
    layer->weight.set_requires_grad(false);
    layer->bias.set_requires_grad(false);
    adapter = std::make_shared<LoraAdapter>(layer->weight, 2, kScaling, dropout);
    a().copy_(numbers({2, 5}, 3));
    b().copy_(numbers({4, 2}, 4));
    layer->attach(adapter);
  }
  at::Tensor a() const { return adapter->a(); }
  at::Tensor b() const { return adapter->b(); }

  std::shared_ptr<Linear> layer;
  std::shared_ptr<LoraAdapter> adapter;
};

void expect_close(const at::Tensor& actual, const at::Tensor& expected) {
  ASSERT_EQ(actual.sizes(), expected.sizes());
  EXPECT_LT((actual - expected).abs().max().item<double>(), 1e-12);
}

TEST(LoraAdapterTest, OutputAndGradientsMatchTheFormulas) {
  const AdaptedLinear adapted(0);
  const at::Tensor x = numbers({3, 5}, 5).requires_grad_(), g = numbers({3, 4}, 6);
  const at::Tensor h = adapted.layer->forward(x);
  h.backward(g);
  const torch::NoGradGuard no_graph;
  const at::Tensor a = adapted.a(), b = adapted.b(), w = adapted.layer->weight;
  expect_close(h, x.mm(w.t()) + adapted.layer->bias + kScaling * x.mm(a.t()).mm(b.t()));
  expect_close(b.grad(), kScaling * g.t().mm(x.mm(a.t())));
  expect_close(a.grad(), kScaling * g.mm(b).t().mm(x));
  expect_close(x.grad(), g.mm(w) + kScaling * g.mm(b).mm(a));
  EXPECT_FALSE(w.grad().defined());
}

TEST(LoraAdapterTest, DropoutOnlyAffectsTheAdapterBranch) {
  const AdaptedLinear adapted(kProbability);
  const at::Tensor x = numbers({3, 5}, 5).requires_grad_(), g = numbers({3, 4}, 6);
  at::Tensor h;
  {
    const ScopedDropout scope(*adapted.layer, {7, 2}, std::vector<std::int64_t>{10, 11, 12});
    h = adapted.layer->forward(x);
    h.backward(g);
  }
  const torch::NoGradGuard no_graph;
  const DropoutMask mask{.seed = 7, .layer = 0, .probability = kProbability};
  const at::Tensor factors =
      apply_dropout(mask, torch::ones({3, 5}, torch::kFloat64),
                    {torch::tensor(std::int64_t{2}), torch::tensor({10, 11, 12})});
  ASSERT_TRUE(factors.eq(0).any().item<bool>());
  ASSERT_FALSE(factors.eq(0).all().item<bool>());
  const at::Tensor a = adapted.a(), b = adapted.b(), w = adapted.layer->weight,
                   dropped = x * factors;
  expect_close(h, x.mm(w.t()) + adapted.layer->bias + kScaling * dropped.mm(a.t()).mm(b.t()));
  expect_close(b.grad(), kScaling * g.t().mm(dropped.mm(a.t())));
  expect_close(a.grad(), kScaling * g.mm(b).t().mm(dropped));
  expect_close(x.grad(), g.mm(w) + kScaling * g.mm(b).mm(a) * factors);
}

TEST(LoraAdapterTest, NothingIsDroppedInEvaluation) {
  const AdaptedLinear adapted(kProbability), whole(0);
  adapted.layer->eval();
  const at::Tensor x = numbers({3, 5}, 5);
  EXPECT_TRUE(adapted.layer->forward(x).equal(whole.layer->forward(x)));
}

TEST(LoraAdapterTest, ZeroBLeavesTheOutputUnchangedBitForBit) {
  for (const auto type : {torch::kFloat32, torch::kBFloat16, torch::kHalf}) {
    const AdaptedLinear adapted(0, type);
    {
      const torch::NoGradGuard no_graph;
      adapted.b().zero_();
    }
    const at::Tensor x = numbers({3, 5}, 5).to(type);
    EXPECT_TRUE(adapted.layer->forward(x).equal(
        torch::linear(x, adapted.layer->weight, adapted.layer->bias)));
  }
}

TEST(LoraAdapterTest, AdapterOfAHalfPrecisionLayerComputesInFloat32) {
  const AdaptedLinear adapted(0, torch::kBFloat16);
  EXPECT_EQ(adapted.a().scalar_type(), torch::kFloat32);
  const at::Tensor x = numbers({3, 5}, 5).to(torch::kBFloat16);
  const at::Tensor own = torch::linear(x, adapted.layer->weight, adapted.layer->bias);
  const at::Tensor added =
      torch::linear(torch::linear(x.to(torch::kFloat32), adapted.a()) * kScaling, adapted.b());
  const at::Tensor output = adapted.layer->forward(x);
  EXPECT_EQ(output.scalar_type(), torch::kBFloat16);
  EXPECT_TRUE(output.equal((own + added).to(torch::kBFloat16)));
}

TEST(LoraAdapterTest, HalfPrecisionWeightIsWidenedForAWiderInput) {
  const AdaptedLinear adapted(0, torch::kBFloat16);
  adapted.layer->detach();
  const at::Tensor x = numbers({3, 5}, 5).to(torch::kFloat32);
  const at::Tensor w = adapted.layer->weight.to(torch::kFloat32),
                   b = adapted.layer->bias.to(torch::kFloat32);
  EXPECT_TRUE(adapted.layer->forward(x).equal(torch::linear(x, w, b)));
}

TEST(LoraAdapterTest, WeightNamesStartWithTheLayerName) {
  const AdaptedLinear adapted(0.1);
  std::vector<std::string> names;
  for (const auto& item : adapted.layer->named_parameters()) names.push_back(item.key());
  EXPECT_THAT(names,
              testing::UnorderedElementsAre("weight", "bias", "lora_A.weight", "lora_B.weight"));
}

TEST(LoraAdapterTest, MergedLayerGivesTheSameOutputWithoutTheAdapter) {
  const AdaptedLinear adapted(0);
  const at::Tensor x = numbers({3, 5}, 5);
  const at::Tensor expected = adapted.layer->forward(x).detach();
  adapted.layer->merge();
  adapted.layer->merge();
  const at::Tensor merged = adapted.layer->forward(x);
  EXPECT_FALSE(merged.requires_grad());
  expect_close(merged, expected);
}

TEST(LoraAdapterTest, HalfPrecisionWeightIsMergedInFloat32) {
  const AdaptedLinear adapted(0, torch::kBFloat16);
  const at::Tensor sum =
      adapted.layer->weight.to(torch::kFloat32) + kScaling * adapted.b().mm(adapted.a());
  adapted.layer->merge();
  EXPECT_TRUE(adapted.layer->weight.equal(sum.to(torch::kBFloat16)));
}

TEST(LoraAdapterTest, NonFiniteMergeIsRejected) {
  const AdaptedLinear adapted(0, torch::kHalf);
  {
    const torch::NoGradGuard no_graph;
    adapted.b().fill_(1e6);
  }
  const at::Tensor before = adapted.layer->weight.clone();
  EXPECT_THROW(adapted.layer->merge(), std::domain_error);
  EXPECT_TRUE(adapted.layer->weight.equal(before));
  EXPECT_TRUE(adapted.layer->forward(torch::ones({1, 5}, torch::kFloat))
                  .requires_grad());  // the adapter still adds
}

TEST(LoraAdapterTest, PatchEmbeddingMatchesALinearLayerOverPatches) {
  const auto layer = std::make_shared<PatchEmbedding>(2, 4, true, torch::kFloat64);
  const auto adapter = std::make_shared<LoraAdapter>(layer->weight, 3, kScaling, 0);
  const torch::NoGradGuard no_graph;
  layer->weight.copy_(numbers({4, 3, 2, 2}, 1));
  layer->bias.copy_(numbers({4}, 2));
  ASSERT_EQ(adapter->a().sizes(), (std::vector<std::int64_t>{3, 3, 2, 2}));
  ASSERT_EQ(adapter->b().sizes(), (std::vector<std::int64_t>{4, 3, 1, 1}));
  adapter->a().copy_(numbers({3, 3, 2, 2}, 3));
  adapter->b().copy_(numbers({4, 3, 1, 1}, 4));
  layer->attach(adapter);
  const at::Tensor pixels = numbers({2, 3, 4, 6}, 5);
  // The patches have shape (n, patches, 12), each row by row.
  const at::Tensor patches = torch::nn::functional::unfold(
                                 pixels, torch::nn::functional::UnfoldFuncOptions({2, 2}).stride(2))
                                 .transpose(1, 2);
  const at::Tensor w =
      layer->weight.flatten(1) + kScaling * adapter->b().flatten(1).mm(adapter->a().flatten(1));
  const at::Tensor expected = torch::linear(patches, w, layer->bias);
  expect_close(layer->forward(pixels), expected);
  layer->merge();
  expect_close(layer->forward(pixels), expected);
}

TEST(LoraAdapterTest, ConvolutionUsesTheStridesAndPaddingOfTheLayer) {
  const ConvolutionSteps steps{.stride = {2, 1}, .padding = {1, 0}, .dilation = {1, 2}};
  const at::Tensor x = numbers({2, 3, 9, 9}, 1), weight = numbers({5, 3, 3, 3}, 2);
  const LoraAdapter adapter(weight, 2, kScaling, 0, steps);
  const torch::NoGradGuard no_graph;
  at::Tensor(adapter.a()).copy_(numbers({2, 3, 3, 3}, 3));
  at::Tensor(adapter.b()).copy_(numbers({5, 2, 1, 1}, 4));
  const auto moved = [&](const at::Tensor& by) {
    return torch::conv2d(x, by, {}, steps.stride, steps.padding, steps.dilation);
  };
  expect_close(moved(weight) + adapter.forward(x), moved(weight + adapter.product()));
}

TEST(LoraAdapterTest, RankBelowOneIsRejected) {
  EXPECT_THROW(LoraAdapter(torch::ones({4, 5}), 0, 1, 0), std::invalid_argument);
}

TEST(LoraAdapterTest, LayerAcceptsOnlyOneAdapter) {
  const AdaptedLinear adapted(0);
  EXPECT_THROW(adapted.layer->attach(adapted.adapter), std::logic_error);
  adapted.layer->detach();
  EXPECT_EQ(adapted.layer->named_parameters().size(), 2u);
  EXPECT_THROW(adapted.layer->detach(), std::logic_error);
}

}  // namespace
}  // namespace stages
