#include "stages/model/transformer_block.h"

#include <memory>

#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

namespace stages {
namespace {

TEST(TransformerBlock, AttentionWithTinyDropoutMatchesEvaluation) {
  for (const auto& [fused, is_causal] :
       {std::pair(false, false), std::pair(true, false), std::pair(false, true)}) {
    const auto attention = std::make_shared<Attention>(BlockOptions{.hidden_size = 8,
                                                                    .num_attention_heads = 2,
                                                                    .attention_dropout = 1e-9,
                                                                    .fused_qkv = fused,
                                                                    .is_causal = is_causal},
                                                       torch::kDouble);
    const torch::NoGradGuard no_graph;
    std::uint64_t seed = 0;
    for (at::Tensor& weight : attention->parameters())
      weight.normal_(0, 1, at::detail::createCPUGenerator(++seed));
    const at::Tensor x =
        torch::empty({3, 5, 8}, torch::kDouble).normal_(0, 1, at::detail::createCPUGenerator(9));
    attention->eval();
    const at::Tensor evaluated = attention->forward(x);
    attention->train();
    const ScopedDropout dropout(*attention, {.seed = 1, .step = 0},
                                std::vector<std::int64_t>{0, 1, 2});
    EXPECT_LT((attention->forward(x) - evaluated).abs().max().item<double>(), 1e-6);
  }
}

BlockOptions small_block(bool fused, double dropout) {
  return {.hidden_size = 8,
          .intermediate_size = 16,
          .num_attention_heads = 2,
          .hidden_act = Activation::kGelu,
          .layer_norm_eps = 1e-5,
          .attention_dropout = dropout,
          .fused_qkv = fused,
          .layer_scale = dropout > 0};
}

TEST(TransformerBlock, LayerScalesMultiplyBothBranches) {
  BlockOptions options = small_block(false, 0);
  const auto plain = std::make_shared<TransformerBlock>(options, 0, torch::kDouble);
  options.layer_scale = true;
  const auto scaled = std::make_shared<TransformerBlock>(options, 0, torch::kDouble);
  const torch::NoGradGuard no_graph;
  std::uint64_t seed = 0;
  auto of_scaled = scaled->named_parameters();
  for (const auto& item : plain->named_parameters()) {
    item.value().normal_(0, 1, at::detail::createCPUGenerator(++seed));
    of_scaled[item.key()].copy_(item.value());
  }
  const at::Tensor x =
      torch::empty({3, 5, 8}, torch::kDouble).normal_(0, 1, at::detail::createCPUGenerator(9));
  of_scaled["layer_scale1.lambda1"].fill_(1);
  of_scaled["layer_scale2.lambda1"].fill_(1);
  EXPECT_TRUE(torch::equal(scaled->forward(x), plain->forward(x)));
  // Without its MLP, a block adds the attention alone.
  of_scaled["layer_scale2.lambda1"].fill_(0);
  const at::Tensor attended = scaled->forward(x) - x;
  const at::Tensor scale = torch::arange(8, torch::kDouble);
  of_scaled["layer_scale1.lambda1"].copy_(scale);
  EXPECT_TRUE(torch::allclose(scaled->forward(x) - x, attended * scale, 1e-10, 1e-10));
  of_scaled["layer_scale1.lambda1"].fill_(0);
  EXPECT_TRUE(torch::equal(scaled->forward(x), x));
}

/// Returns the block's output for the first token, then the gradients of a function of it with
/// respect to the input and all weights.
std::vector<at::Tensor> first_token_and_gradients(TransformerBlock& block, bool is_alone) {
  const at::Tensor x =
      torch::empty({3, 5, 8}, torch::kDouble).normal_(0, 1, at::detail::createCPUGenerator(9));
  x.requires_grad_(true);
  const ScopedDropout dropout(block, {.seed = 1, .step = 0}, std::vector<std::int64_t>{4, 1, 2});
  std::vector<at::Tensor> inputs = block.parameters();
  inputs.push_back(x);
  const at::Tensor y = is_alone ? block.forward_first(x) : block.forward(x).narrow(1, 0, 1);
  std::vector<at::Tensor> result = torch::autograd::grad({y.square().sum()}, inputs);
  result.push_back(y);
  return result;
}

TEST(TransformerBlock, FirstTokenAloneMatchesTheFullOutput) {
  for (const bool fused : {false, true}) {
    for (const double dropout : {0.0, 0.4}) {
      const auto block = std::make_shared<TransformerBlock>(small_block(fused, dropout),
                                                            /*drop_path=*/dropout, torch::kDouble);
      {
        const torch::NoGradGuard no_graph;
        std::uint64_t seed = 0;
        for (at::Tensor& weight : block->parameters())
          weight.normal_(0, 1, at::detail::createCPUGenerator(++seed));
      }
      block->train();
      const auto alone = first_token_and_gradients(*block, true),
                 of_all = first_token_and_gradients(*block, false);
      ASSERT_EQ(alone.back().sizes(), at::IntArrayRef({3, 1, 8}));
      for (std::size_t i = 0; i < alone.size(); ++i)
        EXPECT_TRUE(alone[i].allclose(of_all[i], 1e-10, 1e-10))
            << fused << " " << dropout << " " << i;
      // Recomputation gives the same result bit for bit.
      const ScopedActivationCheckpointing recomputed(*block, {.blocks = true});
      const auto again = first_token_and_gradients(*block, true);
      for (std::size_t i = 0; i < alone.size(); ++i)
        EXPECT_TRUE(again[i].equal(alone[i])) << fused << dropout << i;
    }
  }
}

}  // namespace
}  // namespace stages
