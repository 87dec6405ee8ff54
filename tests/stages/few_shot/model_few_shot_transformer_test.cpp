// Checks the effect of every option of the kind.

#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "stages/few_shot/model_few_shot_transformer.h"
#include "stages/stages.h"
#include "tests/support/episodes.h"
#include "tests/support/model_of.h"
#include "tests/support/stage_of.h"

namespace stages {
namespace {

using Json = nlohmann::ordered_json;
using Sizes = std::vector<std::int64_t>;

constexpr const char* kOptions =
    R"({"backbone": {"kind": "conv", "channels": 3, "blocks": 5}, "heads": 2,
    "head_width": 7, "mlp_width": 11, "score": {"width": 5}})";

std::shared_ptr<torch::nn::Module> outline_of(const Json& more = Json::object()) {
  Json options = Json::parse(kOptions);
  options.merge_patch(more);
  return model_of(kModelFewShotTransformer, options)->outline(episodes());
}

TEST(FewShotTransformer, SizesFollowTheOptions) {
  const auto weights = outline_of()->named_parameters();
  constexpr std::int64_t kFeatures = 3 * 2 * 2;
  EXPECT_EQ(weights["head.attention.in.weight"].sizes(), (Sizes{2 * 7, kFeatures}));
  EXPECT_EQ(weights["head.mlp.mlp.fc1.weight"].sizes(), (Sizes{11, kFeatures}));
  EXPECT_EQ(weights["head.score.inner.weight"].sizes(), (Sizes{5, kFeatures}));
  EXPECT_EQ(weights["head.score.direction"].sizes(), (Sizes{1, 5}));
  EXPECT_EQ(weights["head.prototype_weight"].sizes(), (Sizes{3, 2, 1}));
  EXPECT_EQ(weights["backbone.blocks.4.conv.weight"].sizes(), (Sizes{3, 3, 3, 3}));
}

TEST(FewShotTransformer, EachFormHasItsWeights) {
  const auto weights =
      outline_of({{"prototype", "mean"}, {"score", {{"form", "linear"}}}})->named_parameters();
  EXPECT_FALSE(weights.contains("head.prototype_weight"));
  EXPECT_FALSE(weights.contains("head.score.direction"));
  EXPECT_EQ(weights["head.score.out.weight"].sizes(), (Sizes{1, 5}));
  EXPECT_EQ(weights["head.score.out.bias"].sizes(), (Sizes{1}));
}

at::Tensor logits_with(const Json& more) {
  Json options = Json::parse(kOptions);
  options.merge_patch(more);
  const auto model = model_of(kModelFewShotTransformer, options);
  const auto network = model->build(episodes(), 1);
  const torch::NoGradGuard no_graph;
  return model->forward(*network, episode_inputs(episodes(), 1)).at("logits");
}

TEST(FewShotTransformer, EachComputationOptionChangesTheLogits) {
  const at::Tensor logits = logits_with(Json::object());
  EXPECT_TRUE(logits_with(Json::object()).equal(logits));
  EXPECT_LT((logits_with({{"score", {{"scale", 6.0}}}}) - 3 * logits).abs().max().item<double>(),
            1e-5);
  for (const Json& other : {Json{{"attention", "softmax"}}, Json{{"depth", 2}},
                            Json{{"score", {{"normalize_over", "feature"}}}},
                            Json{{"score", {{"normalize_over", "none"}}}}}) {
    EXPECT_FALSE(torch::allclose(logits_with(other), logits)) << other;
  }
  EXPECT_LT((logits_with({{"prototype", "mean"}}) - logits).abs().max().item<double>(), 1e-5)
      << "learned prototypes begin as means";
}

TEST(FewShotTransformer, MissingWeightsAreAnError) {
  const auto stage =
      created(kModelFewShotTransformer,
              R"({"backbone": {"kind": "resnet", "weights": "no/such/resnet18.pth"}})");
  ASSERT_FALSE(stage);
  ASSERT_EQ(stage.errors().size(), 1);
  EXPECT_EQ(stage.errors()[0].pointer, "/model/backbone/weights");
  EXPECT_EQ(stage.errors()[0].code, runner::ErrorCode::kMissingWeights);
}

}  // namespace
}  // namespace stages
