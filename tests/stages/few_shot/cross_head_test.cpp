#include "stages/few_shot/model_few_shot_transformer.h"

#include <cmath>

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

namespace stages {
namespace {

constexpr std::int64_t kWays = 3, kShots = 2, kQueries = 5, kProjected = 4;
constexpr MapShape kMap = {6, 3, 2};

CrossHead head_of(PairAttention attention) {
  CrossHead head({.pointer = "/model", .attention = attention, .width = kProjected}, kMap,
                 torch::kDouble);
  const torch::NoGradGuard no_graph;
  for (at::Tensor& weight : head.parameters())
    weight.normal_(0, 0.4, at::detail::createCPUGenerator(2));
  return head;
}

EpisodeFeatures random_episode() {
  at::Generator generator = at::detail::createCPUGenerator(1);
  return {torch::randn({kWays, kShots, kMap.features()}, generator, torch::kDouble),
          torch::randn({kQueries, kMap.features()}, generator, torch::kDouble), kMap};
}

/// Computes the formula one number at a time.
at::Tensor literal(const CrossHead& head, PairAttention attention, const EpisodeFeatures& episode) {
  const at::Tensor weight = head.parameters()[0].view({kProjected, kMap.channels});
  const auto projected = [&](const at::Tensor& x) {
    return weight.matmul(x.view({kMap.channels, -1})).flatten();
  };
  at::Tensor logits = torch::empty({kQueries, kWays}, torch::kDouble);
  for (int i = 0; i < kQueries; ++i) {
    const at::Tensor q = projected(episode.queries[i]);
    for (int c = 0; c < kWays; ++c) {
      std::vector<double> weights;
      double sum = 0;
      for (int j = 0; j < kShots; ++j) {
        const at::Tensor k = projected(episode.supports[c][j]);
        const double product = q.dot(k).item<double>();
        const bool is_cosine = attention == PairAttention::kCosine;
        weights.push_back(is_cosine ? product / (q.norm() * k.norm()).item<double>()
                                    : std::exp(product / std::sqrt(double{kProjected})));
        sum += weights.back();
      }
      at::Tensor prototype = torch::zeros_like(q);
      for (int j = 0; j < kShots; ++j) {
        const double share = attention == PairAttention::kCosine ? weights[j] : weights[j] / sum;
        prototype += share * projected(episode.supports[c][j]);
      }
      logits[i][c] = -(q - prototype).square().sum() / double(kMap.height * kMap.width);
    }
  }
  return logits;
}

TEST(CrossHead, MatchesTheFormula) {
  for (const PairAttention attention : {PairAttention::kSoftmax, PairAttention::kCosine}) {
    const CrossHead head = head_of(attention);
    const torch::NoGradGuard no_graph;
    const at::Tensor logits = head.forward(random_episode());
    EXPECT_LT((logits - literal(head, attention, random_episode())).abs().max().item<double>(),
              1e-12);
  }
}

TEST(CrossHead, AcceptsEpisodesOfAnyShape) {
  EpisodeFeatures one = random_episode();
  one.supports = one.supports.slice(0, 0, 2).slice(1, 0, 1);
  one.queries = one.queries.slice(0, 0, 1);
  EXPECT_EQ(head_of(PairAttention::kSoftmax).forward(one).sizes(),
            (std::vector<std::int64_t>{1, 2}));
}

TEST(CrossHead, ZeroFeaturesDoNotCauseNaN) {
  const CrossHead head = head_of(PairAttention::kCosine);
  EpisodeFeatures episode = random_episode();
  episode.supports[1][0].zero_();
  episode.queries[2].zero_();
  const at::Tensor logits = head.forward(episode);
  logits.square().sum().backward();
  EXPECT_TRUE(logits.isfinite().all().item<bool>());
  EXPECT_TRUE(head.parameters()[0].grad().isfinite().all().item<bool>());
}

}  // namespace
}  // namespace stages
