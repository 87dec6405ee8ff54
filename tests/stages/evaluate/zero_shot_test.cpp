// Evaluations of a CLIP by texts: zero-shot classification and retrieval.

#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <torch/torch.h>

#include "runner/stage/config_reader.h"
#include "runner/stage/stage.h"
#include "stages/artifact/checkpoint.h"
#include "stages/artifact/results.h"
#include "stages/evaluate/text_classes.h"
#include "stages/stages.h"
#include "tests/support/captioned_images.h"
#include "tests/support/model_of.h"
#include "tests/support/planning_context.h"
#include "tests/support/recording_context.h"
#include "tests/support/stage_options.h"

namespace stages {
namespace {

using testing::HasSubstr;
using Json = nlohmann::ordered_json;

class TextEvaluation : public testing::Test {
 protected:
  TextEvaluation() {
    const DatasetDescription data = data_->describe();
    const auto model = model_of(kModelClip, Json::parse(kTinyClip));
    checkpoint_->model = model;
    checkpoint_->model_stage = "model";
    checkpoint_->network = model->build(data, 5);
    checkpoint_->network->eval();
    checkpoint_->inputs = data.tensors;
    checkpoint_->classes = data.classes;
  }
  std::unique_ptr<runner::Stage> stage(const runner::StageKind& kind, const Json& options) const {
    const bool is_retrieval = &kind == &kEvaluateRetrieval;
    const runner::Value value =
        stage_options(is_retrieval ? "evaluate/retrieval" : "evaluate/zero_shot", options.dump());
    runner::ConfigReader reader(value, "/evaluate");
    auto made = kind.create(reader);
    if (!made) throw std::logic_error(made.errors()[0].message);
    return *std::move(made);
  }
  runner::Inputs inputs() const { return runner::Inputs({{"test", {data_}}, {"checkpoint", {checkpoint_}}}); }
  nlohmann::json run(const runner::StageKind& kind, const Json& options) {
    outputs_ = stage(kind, options)->run(inputs(), context_);
    std::ifstream file(context_.node().folder / "metrics.json");
    return nlohmann::json::parse(file);
  }
  void expect_refused(const runner::StageKind& kind, const Json& options, const std::string& message) {
    try {
      PlanningContext planning;
      stage(kind, options)->plan(inputs(), planning);
      ADD_FAILURE() << "not refused: " << message;
    } catch (const runner::StageError& error) {
      EXPECT_THAT(error.what(), HasSubstr(message));
    }
  }
  /// The embeddings of all images and of some texts.
  at::Tensor images() const {
    const torch::NoGradGuard no_graph;
    std::vector<at::Tensor> pixels;
    for (std::int64_t i = 0; i < data_->describe().size; ++i) pixels.push_back(data_->sample(0, i)->at("image"));
    return checkpoint_->model->forward(*checkpoint_->network, {{"image", torch::stack(pixels)}}).at("image_embeddings");
  }
  at::Tensor texts(const std::vector<std::string>& texts) const {
    const torch::NoGradGuard no_graph;
    return TextRows(*checkpoint_, texts).embeddings(*checkpoint_->network, at::kCPU, 100);
  }

  std::shared_ptr<CaptionedImages> data_ = std::make_shared<CaptionedImages>(14);
  const std::shared_ptr<Checkpoint> checkpoint_ = std::make_shared<Checkpoint>();
  RecordingContext context_;
  runner::Outputs outputs_;
};

TEST_F(TextEvaluation, ClassIsTheMeanOfItsTemplates) {
  const nlohmann::json metrics = run(kEvaluateZeroShot, {{"templates", {"a {name}", "my {name}!"}}, {"batch_size", 4}});
  std::vector<at::Tensor> classes;
  for (const std::string& name : data_->describe().classes) {
    const at::Tensor mean = texts({"a " + name, "my " + name + "!"}).mean(0);
    classes.push_back(mean / mean.norm());
  }
  const at::Tensor found = images().matmul(torch::stack(classes).t()).argmax(1);
  const at::Tensor labels = torch::tensor(data_->labels());
  EXPECT_NEAR(metrics["top1"].get<double>(), found.eq(labels).to(at::kDouble).mean().item<double>(), 1e-12);
  const auto predictions =
      runner::Inputs({{"predictions", {outputs_.at("predictions")}}}).get<Predictions>("predictions");
  EXPECT_TRUE(predictions->scores.argmax(1).equal(found));
  EXPECT_EQ(predictions->classes, data_->describe().classes);
}

TEST_F(TextEvaluation, ClassHeadIsMeasuredBeside) {
  const nlohmann::json metrics = run(kEvaluateZeroShot, Json::object());
  const torch::NoGradGuard no_graph;
  std::int64_t right = 0;
  for (std::int64_t i = 0; i < 14; ++i) {
    const NamedTensors sample = *data_->sample(0, i);
    const at::Tensor logits =
        checkpoint_->model->forward(*checkpoint_->network, {{"image", sample.at("image").unsqueeze(0)}}).at("logits");
    right += logits.argmax(1).item<std::int64_t>() == sample.at("label").item<std::int64_t>() ? 1 : 0;
  }
  EXPECT_NEAR(metrics["class_head"]["top1"].get<double>(), static_cast<double>(right) / 14, 1e-12);
  EXPECT_THAT(context_.said, testing::Contains(testing::StartsWith("class head: top-1 ")));
  EXPECT_FALSE(run(kEvaluateZeroShot, {{"class_head", false}}).contains("class_head"));
}

TEST_F(TextEvaluation, OtherClassesThanThoseOfTheTrainingAreTold) {
  data_ = std::make_shared<CaptionedImages>(6, std::vector<std::string>{"round", "square"});
  const nlohmann::json metrics = run(kEvaluateZeroShot, Json::object());
  EXPECT_EQ(metrics["per_class"].size(), 2U);
  EXPECT_THAT(context_.said, testing::Contains(HasSubstr("it was trained on other classes")));
}

TEST_F(TextEvaluation, WithinItsClassAnImageIsAskedForItsOwnCaption) {
  const nlohmann::json metrics = run(kEvaluateZeroShot, {{"within_class", true}});
  const double images = metrics["within_class"]["images"];
  EXPECT_EQ(metrics["within_class"]["accuracy"], images > 0 ? 1 : 0);  // a class has one caption here
}

TEST_F(TextEvaluation, RetrievalRanksEqualCaptionsAsFound) {
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

TEST_F(TextEvaluation, NeedsNoMoreThanPlanned) {
  PlanningContext planning;
  stage(kEvaluateZeroShot, Json::object())->plan(inputs(), planning);
  EXPECT_GT(planning.planned.value().predicted, 0);
  PlanningContext other;
  stage(kEvaluateRetrieval, Json::object())->plan(inputs(), other);
  EXPECT_GT(other.planned.value().predicted, 0);
}

TEST_F(TextEvaluation, WhatCannotBeMeasuredIsRefused) {
  const runner::Value value = stage_options("evaluate/zero_shot", R"({"templates": ["a photo"]})");
  runner::ConfigReader reader(value, "/evaluate");
  const auto made = kEvaluateZeroShot.create(reader);
  ASSERT_FALSE(made);
  EXPECT_THAT(made.errors()[0].message, HasSubstr("the template 'a photo' has no {name}"));
  checkpoint_->model = model_of(kModelClipVision, Json::parse(R"({"hidden_size": 8, "intermediate_size": 16,
      "num_hidden_layers": 1, "num_attention_heads": 2, "patch_size": 4})"));
  expect_refused(kEvaluateZeroShot, Json::object(), "the model reads no texts");
  expect_refused(kEvaluateRetrieval, Json::object(), "the model reads no texts");
}

}  // namespace
}  // namespace stages
