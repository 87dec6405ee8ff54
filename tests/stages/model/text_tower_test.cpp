#include "stages/model/clip_network.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

namespace stages {
namespace {

at::Tensor ids(const std::vector<std::vector<std::int64_t>>& rows) {
  std::vector<at::Tensor> tensors;
  for (const auto& row : rows) tensors.push_back(torch::tensor(row));
  return torch::stack(tensors);
}

std::shared_ptr<TextTower> random_tower() {
  auto tower = std::make_shared<TextTower>(TextTowerOptions{.block = {.hidden_size = 8,
                                                                      .intermediate_size = 16,
                                                                      .num_attention_heads = 2,
                                                                      .layer_norm_eps = 1e-5},
                                                            .num_hidden_layers = 3,
                                                            .vocab_size = 10,
                                                            .context_length = 7,
                                                            .end_id = 9},
                                           torch::kDouble);
  const torch::NoGradGuard no_graph;
  std::uint64_t seed = 0;
  for (at::Tensor& weight : tower->parameters())
    weight.normal_(0, 0.5, at::detail::createCPUGenerator(++seed));
  return tower;
}

TEST(TextTower, EndTokenIsFoundByBothRules) {
  const at::Tensor texts = ids({{7, 1, 9, 9}, {7, 2, 3, 1}, {9, 9, 9, 9}});
  EXPECT_TRUE(end_places(texts, EndToken::kHighestId, 9)
                  .equal(torch::tensor(std::vector<std::int64_t>{2, 0, 0})));
  EXPECT_TRUE(end_places(texts, EndToken::kFirstEnd, 3)
                  .equal(torch::tensor(std::vector<std::int64_t>{0, 2, 0})));
}

TEST(TextTower, TokensAfterTheEndAreIgnored) {
  const auto tower = random_tower();
  const torch::NoGradGuard no_graph;
  const at::Tensor expected = tower->forward(ids({{8, 1, 2, 9}}));
  EXPECT_EQ((tower->forward(ids({{8, 1, 2, 9, 9, 9, 9}})) - expected).abs().max().item<double>(),
            0);
  EXPECT_EQ((tower->forward(ids({{8, 1, 2, 9, 0, 0, 0}})) - expected).abs().max().item<double>(),
            0);
  EXPECT_GT((tower->forward(ids({{8, 1, 3, 9}})) - expected).abs().max().item<double>(), 1e-6);
}

TEST(TextTower, AttentionIsCausal) {
  const auto tower = random_tower();
  const torch::NoGradGuard no_graph;
  const at::Tensor one = tower->last_hidden_state(ids({{8, 1, 2, 9}})),
                   other = tower->last_hidden_state(ids({{8, 1, 5, 4}}));
  EXPECT_EQ((one - other).narrow(1, 0, 2).abs().max().item<double>(), 0);
  EXPECT_GT((one - other).narrow(1, 2, 2).abs().max().item<double>(), 1e-6);
}

}  // namespace
}  // namespace stages
