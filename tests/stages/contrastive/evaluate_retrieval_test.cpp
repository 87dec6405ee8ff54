#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "tests/support/refused.h"
#include "tests/support/text_evaluation.h"

namespace stages {
namespace {

using Json = nlohmann::ordered_json;

using Retrieval = TextEvaluation;

TEST_F(Retrieval, EqualCaptionsCountAsFound) {
  const nlohmann::json metrics =
      run(kEvaluateRetrieval, {{"recall_at", {1, 3}}, {"tile", 4}, {"batch_size", 5}});
  const at::Tensor found = images().matmul(texts(data_->describe().captions).t()).argmax(1);
  const double recall =
      found.eq(torch::tensor(data_->captions())).to(at::kDouble).mean().item<double>();
  EXPECT_NEAR(metrics["image_to_text"]["recall_at_1"].get<double>(), recall, 1e-12);
  EXPECT_EQ(metrics["pairs"], 14);
  EXPECT_EQ(metrics["texts"], 3);
  EXPECT_EQ(metrics["hits"], "same_caption");
  const nlohmann::json paired = run(kEvaluateRetrieval, {{"hits", "paired"}});
  EXPECT_EQ(paired["texts"], 14);
  EXPECT_LE(paired["image_to_text"]["recall_at_1"], metrics["image_to_text"]["recall_at_1"]);
  EXPECT_GT(paired["image_to_text"]["mean_rank"], metrics["image_to_text"]["mean_rank"]);
}

TEST_F(Retrieval, CopiesOfACaptionAreOneCandidateAndOneQuery) {
  const at::Tensor products = images().matmul(texts(data_->describe().captions).t());  // (14, 3)
  const std::vector<std::int64_t> own = data_->captions();
  const nlohmann::json metrics = run(kEvaluateRetrieval, {{"recall_at", {1, 2, 3}}});
  const auto product = [&](std::int64_t image, std::int64_t text) {
    return products[image][text].item<double>();
  };
  for (const std::int64_t k : {1, 2, 3}) {
    double found = 0, asked = 0;
    for (std::int64_t image = 0; image < 14; ++image) {
      int before = 0;
      for (std::int64_t text = 0; text < 3; ++text)
        before +=
            product(image, text) > product(image, own[static_cast<std::size_t>(image)]) ? 1 : 0;
      found += before < k ? 1 : 0;
    }
    EXPECT_NEAR(metrics["image_to_text"]["recall_at_" + std::to_string(k)].get<double>(),
                found / 14, 1e-12)
        << k;
    for (std::int64_t text = 0; text < 3; ++text) {
      double best = -2;
      int before = 0;
      for (std::int64_t image = 0; image < 14; ++image)
        best = own[static_cast<std::size_t>(image)] == text ? std::max(best, product(image, text))
                                                            : best;
      for (std::int64_t image = 0; image < 14; ++image)
        before += product(image, text) > best ? 1 : 0;
      asked += before < k ? 1 : 0;
    }
    EXPECT_NEAR(metrics["text_to_image"]["recall_at_" + std::to_string(k)].get<double>(), asked / 3,
                1e-12)
        << k;
  }
  EXPECT_EQ(metrics["image_to_text"]["recall_at_3"], 1) << "there are three captions";
}

TEST_F(Retrieval, IsPlanned) {
  PlanningContext planning;
  stage(kEvaluateRetrieval, Json::object())->plan(inputs(), planning);
  EXPECT_GT(planning.planned.value().needed, 0);
}

TEST_F(Retrieval, ModelMustHaveATextTower) {
  checkpoint_->model =
      model_of(kModelClipVision, Json::parse(R"({"hidden_size": 8, "intermediate_size": 16,
      "num_hidden_layers": 1, "num_attention_heads": 2, "patch_size": 4})"));
  EXPECT_REFUSED(refusal(kEvaluateRetrieval), kOptionConflict, "", "text");
}

}  // namespace
}  // namespace stages
