// The expected numbers come from the authors' program on the same weights and features.

#include "stages/few_shot/model_few_shot_transformer.h"

#include <cmath>

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "runner/shared/stage/stage.h"
#include "stages/numerics/precision_map.h"
#include "tests/support/golden_episode.h"
#include "tests/support/refused.h"

namespace stages {
namespace {

constexpr std::int64_t kHeadWays = 3, kHeadShots = 2, kWidth = 4;

FewShotHeadOptions small_head() {
  FewShotHeadOptions head;
  head.heads = 2;
  head.head_width = 3;
  head.mlp_width = 5;
  return head;
}

FewShotHeadOptions softmax_head() {
  FewShotHeadOptions head = small_head();
  head.attention = PairAttention::kSoftmax;
  head.score = {.width = 3, .weight_normalized = false, .norm = ScoreNorm::kNone, .scale = 1};
  return head;
}

FewShotHeadOptions cosine_head(ScoreNorm norm = ScoreNorm::kWay) {
  FewShotHeadOptions head = small_head();
  head.score.width = 3;
  head.score.norm = norm;
  return head;
}

/// Creates the head in float64, with the weights that the authors' program was given.
FewShotHead golden_head(const FewShotHeadOptions& options) {
  FewShotHead head(options, {.ways = kHeadWays, .shots = kHeadShots, .queries = 6}, {kWidth, 1, 1},
                   torch::kDouble);
  struct Formula {
    const char* name;
    double tag, amplitude, base;
  };
  const Formula formulas[] = {
      {"attention.norm.weight", 1, 0.1, 1}, {"attention.norm.bias", 2, 0.1, 0},
      {"attention.in.weight", 3, 0.5, 0},   {"attention.out.weight", 4, 0.5, 0},
      {"attention.out.bias", 5, 0.1, 0},    {"mlp.norm.weight", 6, 0.1, 1},
      {"mlp.norm.bias", 7, 0.1, 0},         {"mlp.mlp.fc1.weight", 8, 0.5, 0},
      {"mlp.mlp.fc1.bias", 9, 0.1, 0},      {"mlp.mlp.fc2.weight", 10, 0.5, 0},
      {"mlp.mlp.fc2.bias", 11, 0.1, 0},     {"score.norm.weight", 12, 0.1, 1},
      {"score.norm.bias", 13, 0.1, 0},      {"score.inner.weight", 14, 0.5, 0},
      {"score.inner.bias", 15, 0.1, 0},     {"score.direction", 16, 0.5, 0},
      {"score.out.weight", 17, 0.5, 0},     {"prototype_weight", 18, 0.5, 0}};
  const torch::NoGradGuard no_graph;
  auto weights = head.named_parameters();
  for (const Formula& formula : formulas) {
    if (at::Tensor* weight = weights.find(formula.name))
      weight->copy_(sine_weight(weight->sizes(), formula.tag, formula.amplitude, formula.base));
  }
  if (at::Tensor* length = weights.find("score.length")) length->fill_(1.3);
  if (at::Tensor* bias = weights.find("score.out.bias")) bias->fill_(0.2);
  return head;
}

EpisodeFeatures golden_episode() { return {golden_supports(), golden_queries(), {kWidth, 1, 1}}; }

double cross_entropy(const at::Tensor& logits) {
  return torch::cross_entropy_loss(logits, torch::tensor({0, 0, 1, 1, 2, 2})).item<double>();
}

TEST(FewShotHead, CosineMatchesThePublishedLogits) {
  const at::Tensor logits = golden_head(cosine_head()).forward(golden_episode());
  const at::Tensor expected = torch::tensor({{0.380502, -0.162983, 1.179481},
                                             {0.382507, -0.156036, 1.245456},
                                             {0.362862, -0.177013, 1.066713},
                                             {0.389542, -0.131501, 1.340662},
                                             {0.372650, -0.155555, 1.276860},
                                             {0.381185, -0.162405, 1.183195}},
                                            torch::kDouble);
  EXPECT_LT((logits - expected).abs().max().item<double>(), 1e-6) << logits;
  EXPECT_NEAR(cross_entropy(logits), 1.252894, 1e-6);
}

TEST(FewShotHead, SoftmaxMatchesThePublishedLogits) {
  const at::Tensor logits = golden_head(softmax_head()).forward(golden_episode());
  const at::Tensor expected = torch::tensor({{-0.263734, 0.056820, 0.614928},
                                             {-0.251384, 0.087450, 0.629521},
                                             {-0.238979, 0.097265, 0.601230},
                                             {-0.260256, 0.080982, 0.635647},
                                             {-0.266374, 0.056345, 0.619296},
                                             {-0.263740, 0.057404, 0.615643}},
                                            torch::kDouble);
  EXPECT_LT((logits - expected).abs().max().item<double>(), 1e-6) << logits;
  EXPECT_NEAR(cross_entropy(logits), 1.160388, 1e-6);
}

TEST(FewShotHead, ScoreOverFeaturesMatchesThePublishedLogits) {
  const at::Tensor logits = golden_head(cosine_head(ScoreNorm::kFeature)).forward(golden_episode());
  const at::Tensor first = torch::tensor({-0.922245, -1.248837, 1.532305}, torch::kDouble);
  EXPECT_LT((logits[0] - first).abs().max().item<double>(), 1e-6) << logits;
  EXPECT_NEAR(cross_entropy(logits), 1.882010, 1e-6);
}

/// Counts the parameters of the head alone, for features of this width.
std::int64_t parameters_of(std::int64_t width, std::int64_t ways, std::int64_t shots,
                           bool learned = true) {
  FewShotHeadOptions options;
  options.learned_prototypes = learned;
  const FewShotHead head(options, {.ways = ways, .shots = shots, .queries = 80}, {width, 1, 1},
                         at::kMeta);
  std::int64_t count = 0;
  for (const at::Tensor& parameter : head.parameters()) count += parameter.numel();
  return count;
}

TEST(FewShotHead, HasThePublishedNumberOfParameters) {
  for (const std::int64_t width : {1024, 1600, 8192, 23104, 25088}) {
    EXPECT_EQ(parameters_of(width, 5, 5), 2120 * width + 641 + 25) << width;
    EXPECT_EQ(parameters_of(width, 5, 1), 2120 * width + 641 + 5) << width;
    EXPECT_EQ(parameters_of(width, 5, 5, /*learned=*/false), 2120 * width + 641) << width;
  }
  EXPECT_EQ(parameters_of(25088, 5, 5), 53187226);
}

TEST(FewShotHead, SoftmaxOverASingleKeyIsOneForAnyQuery) {
  const FewShotHead head = golden_head(softmax_head());
  const auto weights = head.named_parameters();
  const auto projected = [&](const at::Tensor& x) {
    const at::Tensor normed = torch::layer_norm(x, {kWidth}, weights["attention.norm.weight"],
                                                weights["attention.norm.bias"], 1e-5);
    return torch::linear(normed, weights["attention.in.weight"]).view({-1, 2, 3});
  };
  const at::Tensor prototypes = head.prototypes(golden_supports());
  const at::Tensor a = projected(prototypes).transpose(0, 1).unsqueeze(0);  // (1, heads, ways, 3)
  const at::Tensor b = projected(golden_queries()).unsqueeze(2);  // (queries, heads, 1 key, 3)
  const at::Tensor s = torch::softmax(a.matmul(b.transpose(2, 3)) / std::sqrt(3.0), -1);
  EXPECT_TRUE(s.eq(1).all().item<bool>());
  const at::Tensor literal =
      torch::linear(s.matmul(b).transpose(1, 2).flatten(2), weights["attention.out.weight"],
                    weights["attention.out.bias"]);  // (queries, ways, width)
  const auto& attention = *head.named_children()["attention"]->as<PairAttentionLayer>();
  const at::Tensor ours = attention.forward(prototypes.unsqueeze(0), golden_queries());
  EXPECT_LT((ours - literal).abs().max().item<double>(), 1e-15);
}

TEST(FewShotHead, CosinesAreBoundedAndIndependentOfLength) {
  const FewShotHead head = golden_head(cosine_head());
  const auto& attention = *head.named_children()["attention"]->as<PairAttentionLayer>();
  const at::Tensor asking = torch::randn({1, 50, kWidth}, torch::kDouble);
  const at::Tensor queries = torch::randn({40, kWidth}, torch::kDouble);
  const at::Tensor cosines = attention.cosines(asking, queries);
  EXPECT_EQ(cosines.sizes(), (std::vector<std::int64_t>{40, 50, 2}));
  EXPECT_LE(cosines.abs().max().item<double>(), 1 + 1e-12);
  EXPECT_GT(cosines.std().item<double>(), 0.1);
  const torch::NoGradGuard no_graph;
  head.named_parameters()["attention.in.weight"].mul_(7);
  EXPECT_LT((attention.cosines(asking, queries) - cosines).abs().max().item<double>(), 1e-12);
}

TEST(FewShotHead, LogitsFollowTheOrderOfTheClasses) {
  FewShotHead head = golden_head(cosine_head());
  const torch::NoGradGuard no_graph;
  head.prototype_weight.fill_(1);
  const at::Tensor order = torch::tensor({2, 0, 1});
  EpisodeFeatures turned = golden_episode();
  turned.supports = turned.supports.index_select(0, order);
  const at::Tensor expected = head.forward(golden_episode()).index_select(1, order);
  EXPECT_LT((head.forward(turned) - expected).abs().max().item<double>(), 1e-14);
}

TEST(FewShotHead, PrototypesStartAsMeansAndAreWeightedByASoftmax) {
  FewShotHead head = golden_head(cosine_head());
  const torch::NoGradGuard no_graph;
  const at::Tensor supports = golden_supports();
  head.prototype_weight.fill_(1);
  EXPECT_LT((head.prototypes(supports) - supports.mean(1)).abs().max().item<double>(), 1e-15);
  head.prototype_weight[1][0][0] = 1 + std::log(3.0);
  const at::Tensor weighted = 0.75 * supports[1][0] + 0.25 * supports[1][1];
  EXPECT_LT((head.prototypes(supports)[1] - weighted).abs().max().item<double>(), 1e-15);
}

TEST(FewShotHead, DepthAppliesTheSameBlockAgain) {
  FewShotHeadOptions twice = cosine_head(ScoreNorm::kFeature);
  twice.depth = 2;
  const FewShotHead head = golden_head(twice);
  const auto& attention = *head.named_children()["attention"]->as<PairAttentionLayer>();
  const auto& mlp = *head.named_children()["mlp"]->as<ResidualMlp>();
  const auto& score = *head.named_children()["score"]->as<PairScore>();
  at::Tensor x = head.prototypes(golden_supports()).unsqueeze(0);
  for (int layer = 0; layer < 2; ++layer)
    x = mlp.forward(attention.forward(x, golden_queries()) + x);
  EXPECT_TRUE(head.forward(golden_episode()).equal(score.forward(x)));
  EXPECT_EQ(head.parameters().size(), golden_head(cosine_head()).parameters().size());
}

TEST(FewShotHead, OneHeadAsWideAsTheFeaturesHasNoOutputLayer) {
  FewShotHeadOptions one = cosine_head();
  one.heads = 1;
  EXPECT_TRUE(golden_head(one).named_parameters().contains("attention.out.weight"));
  one.head_width = kWidth;
  const FewShotHead head = golden_head(one);
  EXPECT_FALSE(head.named_parameters().contains("attention.out.weight"));
  EXPECT_EQ(head.forward(golden_episode()).sizes(), (std::vector<std::int64_t>{6, 3}));
}

TEST(FewShotHead, ZeroVectorsHaveCosineZeroAndCauseNoNaN) {
  FewShotHead head = golden_head(cosine_head());
  {
    const torch::NoGradGuard no_graph;
    head.named_parameters()["attention.in.weight"].zero_();
    head.named_parameters()["score.inner.weight"].zero_();  // and all features are 0 in every class
    head.named_parameters()["score.inner.bias"].zero_();
  }
  const auto& attention = *head.named_children()["attention"]->as<PairAttentionLayer>();
  EXPECT_TRUE(attention.cosines(golden_supports().mean(1).unsqueeze(0), golden_queries())
                  .eq(0)
                  .all()
                  .item<bool>());
  const at::Tensor logits = head.forward(golden_episode());
  EXPECT_TRUE(logits.isfinite().all().item<bool>());
  torch::cross_entropy_loss(logits, torch::tensor({0, 0, 1, 1, 2, 2})).backward();
  for (const auto& item : head.named_parameters())
    EXPECT_TRUE(item.value().grad().isfinite().all().item<bool>()) << item.key();
}

TEST(FewShotHead, OneQueryAndOneWayKeepTheirDimensions) {
  FewShotHeadOptions options = cosine_head();
  options.learned_prototypes = false;
  const FewShotHead head = golden_head(options);
  const EpisodeFeatures one{
      golden_supports().slice(0, 0, 1), golden_queries().slice(0, 0, 1), {kWidth, 1, 1}};
  EXPECT_EQ(head.forward(one).sizes(), (std::vector<std::int64_t>{1, 1}));
}

/// Returns the error of forward(), with its help.
runner::Diagnostics refusal_of(const FewShotHead& head, const EpisodeFeatures& features) {
  return refusals_of([&] { head.forward(features); });
}

TEST(FewShotHead, LearnedPrototypesRequireOneEpisodeShape) {
  FewShotHeadOptions options = cosine_head();
  options.pointer = "/model";
  EpisodeFeatures other = golden_episode();
  other.supports = other.supports.slice(0, 0, 2).slice(1, 0, 1);
  EXPECT_REFUSED(refusal_of(golden_head(options), other), kOptionConflict, "/model/prototype",
                 "3 ways of 2 shots", "2 ways of 1 shot");
  options.learned_prototypes = false;
  EXPECT_EQ(golden_head(options).forward(other).sizes(), (std::vector<std::int64_t>{6, 2}));
}

TEST(FewShotHead, FeaturesForAnotherImageSizeAreRejected) {
  FewShotHeadOptions options = cosine_head();
  options.pointer = "/model";
  EpisodeFeatures other = golden_episode();
  other.map = {1, 2, 2};
  EXPECT_REFUSED(refusal_of(golden_head(options), other), kOptionConflict, "/model", "4 x 1 x 1",
                 "1 x 2 x 2");
}

TEST(FewShotHead, CosinesAndScoresStayInFloat32UnderAutocast) {
  FewShotHead head = golden_head(cosine_head());
  head.to(torch::kFloat);
  EpisodeFeatures episode = golden_episode();
  episode.supports = episode.supports.to(torch::kFloat);
  episode.queries = episode.queries.to(torch::kFloat);
  const torch::NoGradGuard no_graph;
  const at::Tensor plain = head.forward(episode);
  const ScopedPrecision halves(Precision::kBf16, at::kCPU);
  const at::Tensor logits = head.forward(episode);
  EXPECT_EQ(logits.scalar_type(), at::kFloat);
  EXPECT_LT((logits - plain).abs().max().item<double>(), 0.05);
  const auto& attention = *head.named_children()["attention"]->as<PairAttentionLayer>();
  EXPECT_EQ(attention.cosines(episode.supports.mean(1).unsqueeze(0), episode.queries).scalar_type(),
            at::kFloat);
}

}  // namespace
}  // namespace stages
