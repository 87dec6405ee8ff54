// DoRA and PiSSA.

#include <optional>

#include <gmock/gmock.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "runner/shared/stage/stage.h"
#include "stages/model/adapter_folder.h"
#include "stages/model/attached_lora.h"
#include "stages/model/layers.h"
#include "stages/random/apply_dropout.h"
#include "tests/support/refused.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tiny_tower.h"

namespace stages {
namespace {

constexpr double kScale = 1.75, kDropped = 0.4;
constexpr LoraVariant kDora = {.has_magnitude = true}, kPissa = {.is_principal = true},
                      kBoth = {.has_magnitude = true, .is_principal = true};

at::Tensor drawn(at::IntArrayRef shape, std::uint64_t seed) {
  return torch::randn(shape, at::detail::createCPUGenerator(seed), torch::kFloat64);
}

/// A linear layer with 5 inputs, 4 outputs and an adapter of rank 2. The adapter's weights differ
/// from their initial values.
struct MovedLinear {
  MovedLinear(LoraVariant variant, double dropout, bool is_moved = true)
      : layer(std::make_shared<Linear>(5, 4, true, torch::kFloat64)) {
    const torch::NoGradGuard no_graph;
    layer->weight.copy_(drawn({4, 5}, 1));
    layer->bias.copy_(drawn({4}, 2));
    layer->weight.set_requires_grad(false);
    layer->bias.set_requires_grad(false);
    adapter =
        std::make_shared<LoraAdapter>(layer->weight, 2, kScale, dropout, std::nullopt, variant);
    at::Tensor(adapter->a()).copy_(drawn({2, 5}, 3));
    at::Tensor(adapter->b()).zero_();
    adapter->start_from(layer->weight);
    start_a = adapter->a().clone();
    start_b = adapter->b().clone();
    layer->attach(adapter);
    if (!is_moved) return;
    at::Tensor(adapter->a()).add_(drawn({2, 5}, 4));
    at::Tensor(adapter->b()).add_(drawn({4, 2}, 5));
    if (variant.has_magnitude) at::Tensor(adapter->magnitude()).mul_(drawn({4}, 6).exp());
  }

  std::shared_ptr<Linear> layer;
  std::shared_ptr<LoraAdapter> adapter;
  at::Tensor start_a, start_b;
};

void expect_near(const at::Tensor& actual, const at::Tensor& expected) {
  ASSERT_EQ(actual.sizes(), expected.sizes());
  EXPECT_LT((actual - expected).abs().max().item<double>(), 1e-12);
}

/// Runs step 2 with seed 7 on the samples 10, 11 and 12.
at::Tensor forward_in_training(const Linear& layer, const at::Tensor& x) {
  const ScopedDropout scope(const_cast<Linear&>(layer), {7, 2},
                            std::vector<std::int64_t>{10, 11, 12});
  return layer.forward(x);
}

at::Tensor kept_factors() {
  const DropoutMask mask{.seed = 7, .layer = 0, .probability = kDropped};
  return apply_dropout(mask, torch::ones({3, 5}, torch::kFloat64),
                       {torch::tensor(std::int64_t{2}), torch::tensor({10, 11, 12})});
}

TEST(LoraVariants, DoraMatchesThePaperWithAConstantNorm) {
  const MovedLinear dora(kDora, 0);
  const at::Tensor x = drawn({3, 5}, 7).requires_grad_(), g = drawn({3, 4}, 8);
  const at::Tensor h = dora.layer->forward(x);
  h.backward(g);
  const at::Tensor by_x = x.grad().clone();
  std::vector<at::Tensor> parameters = {dora.adapter->a(), dora.adapter->b(),
                                        dora.adapter->magnitude()};
  std::vector<at::Tensor> gradients;
  for (at::Tensor& parameter : parameters) {
    gradients.push_back(parameter.grad().clone());
    parameter.mutable_grad().reset();
  }
  x.mutable_grad().reset();
  const at::Tensor sum = dora.layer->weight + kScale * parameters[1].mm(parameters[0]);
  const at::Tensor weight = sum * (parameters[2] / sum.norm(2, 1).detach()).unsqueeze(1);
  const at::Tensor expected = torch::linear(x, weight, dora.layer->bias);
  expect_near(h, expected);
  expected.backward(g);
  expect_near(by_x, x.grad());
  for (std::size_t i = 0; i < parameters.size(); ++i)
    expect_near(gradients[i], parameters[i].grad());
}

TEST(LoraVariants, StartFromTheUnchangedLayer) {
  for (const LoraVariant variant : {kDora, kPissa, kBoth}) {
    const MovedLinear start(variant, 0, /*is_moved=*/false);
    const at::Tensor x = drawn({3, 5}, 7);
    expect_near(start.layer->forward(x), torch::linear(x, start.layer->weight, start.layer->bias));
    start.layer->forward(x).sum().backward();
    EXPECT_GT(start.adapter->b().grad().abs().min().item<double>(), 0);
  }
}

TEST(LoraVariants, PissaStartsWithTheBestApproximationOfTheWeight) {
  const MovedLinear start(kPissa, 0, /*is_moved=*/false);
  const at::Tensor all = torch::linalg_svdvals(start.layer->weight);
  const at::Tensor rest = start.layer->weight - kScale * start.start_b.mm(start.start_a);
  // By Eckart and Young's theorem, this is the error of the best approximation of rank 2.
  EXPECT_NEAR(rest.norm().item<double>(), all.slice(0, 2).norm().item<double>(), 1e-12);
  expect_near(start.start_a.norm(2, 1), (all.slice(0, 0, 2) / kScale).sqrt());
  expect_near(start.start_b.norm(2, 0), (all.slice(0, 0, 2) / kScale).sqrt());
}

TEST(LoraVariants, MergedLayerGivesTheSameOutput) {
  for (const LoraVariant variant : {kDora, kPissa, kBoth}) {
    const MovedLinear moved(variant, 0);
    const at::Tensor x = drawn({3, 5}, 7), expected = moved.layer->forward(x).detach();
    moved.layer->merge();
    expect_near(moved.layer->forward(x), expected);
  }
}

// peft computes W₀'(x) + (m - 1) W₀'(drop(x)) + m scaling B(A(drop(x))), with m = magnitude / norm
// and W₀' without the bias, which is added once.
TEST(LoraVariants, DropoutMatchesPeft) {
  for (const LoraVariant variant : {kDora, kPissa, kBoth}) {
    const MovedLinear moved(variant, kDropped);
    const at::Tensor x = drawn({3, 5}, 7), kept = x * kept_factors();
    const at::Tensor a = moved.adapter->a(), b = moved.adapter->b(), w = moved.layer->weight;
    const at::Tensor base = variant.is_principal ? w - kScale * moved.start_b.mm(moved.start_a) : w;
    const at::Tensor low = kScale * kept.mm(a.t()).mm(b.t());
    at::Tensor expected = torch::linear(x, base, moved.layer->bias);
    if (variant.has_magnitude) {
      const at::Tensor m = moved.adapter->magnitude() / (base + kScale * b.mm(a)).norm(2, 1);
      expected = expected + (m - 1) * kept.mm(base.t()) + m * low;
    } else {
      expected = expected + low;
    }
    expect_near(forward_in_training(*moved.layer, x), expected);
  }
}

TEST(LoraVariants, DoraOnAPatchEmbeddingIsMerged) {
  const auto layer = std::make_shared<PatchEmbedding>(2, 4, true, torch::kFloat64);
  const auto adapter =
      std::make_shared<LoraAdapter>(layer->weight, 3, kScale, 0, std::nullopt, kDora);
  const torch::NoGradGuard no_graph;
  layer->weight.copy_(drawn({4, 3, 2, 2}, 1));
  layer->bias.copy_(drawn({4}, 2));
  at::Tensor(adapter->a()).copy_(drawn({3, 3, 2, 2}, 3));
  at::Tensor(adapter->b()).zero_();
  adapter->start_from(layer->weight);
  EXPECT_EQ(adapter->magnitude().sizes(), (std::vector<std::int64_t>{1, 4, 1, 1}));
  const at::Tensor pixels = drawn({2, 3, 4, 6}, 5), before = layer->forward(pixels);
  layer->attach(adapter);
  expect_near(layer->forward(pixels), before);
  at::Tensor(adapter->b()).copy_(drawn({4, 3, 1, 1}, 4));
  at::Tensor(adapter->magnitude()).mul_(2);
  const at::Tensor moved = layer->forward(pixels);
  EXPECT_GT((moved - before).abs().min().item<double>(), 0);
  layer->merge();
  expect_near(layer->forward(pixels), moved);
}

TEST(LoraVariants, ZeroWeightsGiveFiniteOutputs) {
  const auto layer = std::make_shared<Linear>(5, 4, false, torch::kFloat32);
  const auto adapter =
      std::make_shared<LoraAdapter>(layer->weight, 2, kScale, 0, std::nullopt, kDora);
  {
    const torch::NoGradGuard no_graph;
    layer->weight.zero_();
    at::Tensor(adapter->a()).fill_(1);
    at::Tensor(adapter->b()).zero_();
  }
  adapter->start_from(layer->weight);
  layer->attach(adapter);
  const at::Tensor h = layer->forward(torch::ones({3, 5}));
  h.sum().backward();
  EXPECT_TRUE(h.eq(0).all().item<bool>());
  for (const at::Tensor& weight : {adapter->a(), adapter->b(), adapter->magnitude()})
    EXPECT_TRUE(torch::isfinite(weight.grad()).all().item<bool>());
}

LoraOptions options_of(bool dora, LoraInitialization initialization) {
  LoraOptions options{.rank = 2, .alpha = 4, .dora = dora, .initialization = initialization};
  options.targets = std::vector<std::string>{"q_proj"};
  return options;
}

at::Tensor logits_of(const ImageClassifier& network) {
  const torch::NoGradGuard no_graph;
  return network.forward(drawn({2, 3, 8, 8}, 9)).at("logits");
}

struct VariantTower {
  explicit VariantTower(const LoraOptions& options) : network(tiny_tower()) {
    lora = attach_lora(*network, options, clip_names, 5);
    start_from_weights(lora);
  }
  std::shared_ptr<ImageClassifier> network;
  AttachedLora lora;
};

TEST(LoraVariants, PissaIsSavedAsPlainLoraWithTwiceTheRank) {
  for (const bool dora : {false, true}) {
    const VariantTower one(options_of(dora, LoraInitialization::kPrincipal));
    const torch::NoGradGuard no_graph;
    for (const LoraLayer& layer : one.lora.layers) {
      at::Tensor b = layer.layer->adapter()->b();
      b.add_(drawn(b.sizes(), 3));
    }
    const TemporaryFolder folder;
    save_adapter(folder / "adapter", one.lora, clip_names, {"CLIPVisionModel", "", {}});
    const SavedAdapter saved = read_adapter(folder / "adapter");
    EXPECT_EQ(saved.config.options.rank, 4);
    EXPECT_EQ(saved.config.options.alpha, 8);
    EXPECT_EQ(saved.config.options.initialization, LoraInitialization::kKaiming);
    EXPECT_EQ(saved.config.options.dora, dora);
    const VariantTower plain(saved.config.options);
    load_adapter(plain.lora, saved, clip_names);
    expect_near(logits_of(*plain.network), logits_of(*one.network));
  }
}

TEST(LoraVariants, MagnitudesHaveThePeftNameAndAreRequired) {
  const VariantTower dora(options_of(true, LoraInitialization::kKaiming)),
      plain(options_of(false, LoraInitialization::kKaiming));
  EXPECT_TRUE(
      adapter_tensors(dora.lora, clip_names)
          .contains("vision_model.encoder.layers.0.self_attn.q_proj.lora_magnitude_vector"));
  const TemporaryFolder folder;
  save_adapter(folder / "plain", plain.lora, clip_names, {"CLIPVisionModel", "", {}});
  save_adapter(folder / "dora", dora.lora, clip_names, {"CLIPVisionModel", "", {}});
  EXPECT_REFUSED(load_adapter(dora.lora, read_adapter(folder / "plain"), clip_names),
                 kDamagedWeights, "/adapter", "has no magnitudes (DoRA)", "set dora: false");
  EXPECT_REFUSED(load_adapter(plain.lora, read_adapter(folder / "dora"), clip_names),
                 kDamagedWeights, "/adapter", "has magnitudes (DoRA)", "set dora: true");
}

TEST(LoraVariants, PissaIsRejectedForConvolutionsAndExcessiveRanks) {
  LoraOptions options = options_of(false, LoraInitialization::kPrincipal);
  const auto attach = [&] { attach_lora(*tiny_tower(), options, clip_names, 5); };
  options.rank = 1000;
  EXPECT_REFUSED(attach(), kOptionConflict, "/rank", "singular values", "set rank to at most");
  options.rank = 1;
  options.targets = std::vector<std::string>{"patch_embedding"};
  EXPECT_REFUSED(attach(), kOptionConflict, "/targets", "is a convolution",
                 "initialization: kaiming");
}

}  // namespace
}  // namespace stages
