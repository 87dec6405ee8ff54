#include "stages/model/transformer_block.h"

#include <memory>

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace stages {
namespace {

TEST(TransformerBlock, AttentionThatDropsNextToNothingIsThatOfEvaluation) {
  for (const bool fused : {false, true}) {
    const auto attention = std::make_shared<Attention>(8, 2, fused, /*dropout=*/1e-9, torch::kDouble);
    const torch::NoGradGuard no_graph;
    std::uint64_t seed = 0;
    for (at::Tensor& weight : attention->parameters()) weight.normal_(0, 1, at::detail::createCPUGenerator(++seed));
    const at::Tensor x = torch::empty({3, 5, 8}, torch::kDouble).normal_(0, 1, at::detail::createCPUGenerator(9));
    attention->eval();
    const at::Tensor evaluated = attention->forward(x);
    attention->train();
    const ScopedDropout dropout(*attention, {.seed = 1, .step = 0}, std::vector<std::int64_t>{0, 1, 2});
    EXPECT_LT((attention->forward(x) - evaluated).abs().max().item<double>(), 1e-6);
  }
}

}  // namespace
}  // namespace stages
