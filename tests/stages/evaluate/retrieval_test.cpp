#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <torch/types.h>

#include "tests/support/text_evaluation.h"

namespace stages {
namespace {

using Json = nlohmann::ordered_json;

using Retrieval = TextEvaluation;

TEST_F(Retrieval, EqualCaptionsAreFound) {
  const nlohmann::json metrics = run(kEvaluateRetrieval, {{"recall_at", {1, 3}}, {"tile", 4}, {"batch_size", 5}});
  const at::Tensor found = images().matmul(texts(data_->describe().captions).t()).argmax(1);
  const double recall = found.eq(torch::tensor(data_->captions())).to(at::kDouble).mean().item<double>();
  EXPECT_NEAR(metrics["image_to_text"]["recall_at_1"].get<double>(), recall, 1e-12);
  EXPECT_EQ(metrics["pairs"], 14);
  EXPECT_EQ(metrics["hits"], "same_caption");
  const nlohmann::json paired = run(kEvaluateRetrieval, {{"hits", "paired"}});
  EXPECT_LE(paired["image_to_text"]["recall_at_1"], metrics["image_to_text"]["recall_at_1"]);
  EXPECT_GT(paired["image_to_text"]["mean_rank"], metrics["image_to_text"]["mean_rank"]);
}

TEST_F(Retrieval, IsPlanned) {
  PlanningContext planning;
  stage(kEvaluateRetrieval, Json::object())->plan(inputs(), planning);
  EXPECT_GT(planning.planned.value().predicted, 0);
}

TEST_F(Retrieval, ModelMustReadTexts) {
  checkpoint_->model = model_of(kModelClipVision, Json::parse(R"({"hidden_size": 8, "intermediate_size": 16,
      "num_hidden_layers": 1, "num_attention_heads": 2, "patch_size": 4})"));
  expect_refused(kEvaluateRetrieval, Json::object(), "the model reads no texts");
}

}  // namespace
}  // namespace stages
