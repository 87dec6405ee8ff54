// Checks the effect of every option of the kind.

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "runner/shared/stage/config_reader.h"
#include "stages/stages.h"
#include "tests/support/episodes.h"
#include "tests/support/model_of.h"

namespace stages {
namespace {

using Json = nlohmann::ordered_json;

std::shared_ptr<const Model> cross_transformer(const Json& more = Json::object()) {
  Json options = {{"backbone", {{"kind", "conv"}, {"channels", 3}}}, {"width", 6}};
  options.merge_patch(more);
  return model_of(kModelCrossTransformer, options);
}

TEST(CrossTransformer, WidthComesFromItsProjection) {
  const auto weights = cross_transformer()->outline(episodes())->named_parameters();
  EXPECT_EQ(weights["head.projection.weight"].sizes(), (std::vector<std::int64_t>{6, 3, 1, 1}));
  EXPECT_FALSE(weights.contains("head.projection.bias"));
}

TEST(CrossTransformer, AttentionChangesTheLogits) {
  const auto softmax = cross_transformer(), cosine = cross_transformer({{"attention", "cosine"}});
  const DatasetDescription data = episodes();
  const auto network = softmax->build(data, 1), other = cosine->build(data, 1);
  const NamedTensors inputs = episode_inputs(data, 1);
  const torch::NoGradGuard no_graph;
  const at::Tensor logits = softmax->forward(*network, inputs).at("logits");
  EXPECT_FALSE(torch::allclose(cosine->forward(*other, inputs).at("logits"), logits));
  EXPECT_TRUE(logits.le(0).all().item<bool>()) << "logits are negative distances";
}

TEST(CrossTransformer, WaysAndShotsMayDifferFromTheConfiguration) {
  const auto model = cross_transformer();
  const auto network = model->build(episodes(3, 2, 4), 1);
  const torch::NoGradGuard no_graph;
  const DatasetDescription other = episodes(4, 1, 5);
  EXPECT_EQ(model->forward(*network, episode_inputs(other, 2)).at("logits").sizes(),
            (std::vector<std::int64_t>{2, 5, 4}));
}

}  // namespace
}  // namespace stages
