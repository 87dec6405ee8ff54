// The metrics and files of evaluate.classification.

#include <cmath>

#include <gmock/gmock.h>
#include <torch/types.h>

#include <nlohmann/json.hpp>

#include "runner/shared/stage/stage.h"
#include "tests/support/classification_fixture.h"
#include "tests/support/number_rows.h"
#include "tests/support/refused.h"

namespace stages {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using ClassificationOutputs = Classification;

TEST_F(ClassificationOutputs, MetricsAreRecordedInOrderAtTheCheckpointStep) {
  const auto outputs = run(flowers());
  const auto metrics = std::static_pointer_cast<const Metrics>(outputs.at("metrics"));
  ASSERT_EQ(metrics->values.size(), context_.metrics.size());
  for (std::size_t i = 0; i < metrics->values.size(); ++i) {
    EXPECT_EQ(context_.metrics[i],
              std::tuple("evaluate/" + metrics->values[i].first, metrics->values[i].second, 40));
  }
  EXPECT_EQ(metrics->values.front(), std::pair(std::string("top1"), 0.75));
  std::vector<std::string> names;
  for (const auto& [name, value] : metrics->values) names.push_back(name);
  EXPECT_THAT(std::vector(names.end() - 4, names.end()),
              ElementsAre("samples", "auc_macro", "auc_micro", "calibration_error"));
}

TEST_F(ClassificationOutputs, PredictionsAreProbabilitiesByClassName) {
  const auto outputs = run(flowers());
  const auto predictions = std::static_pointer_cast<const Predictions>(outputs.at("predictions"));
  EXPECT_THAT(predictions->names, ElementsAre("image0", "image1", "image2", "image3"));
  EXPECT_EQ(predictions->classes, kFlowers);
  EXPECT_TRUE(predictions->labels.equal(torch::tensor({0, 1, 2, 2})));
  EXPECT_EQ(predictions->scores.scalar_type(), at::kFloat);
  EXPECT_TRUE(predictions->scores.allclose(four_samples().softmax(1)));
}

TEST_F(ClassificationOutputs, WritesItsFiles) {
  run(flowers());
  const auto json =
      nlohmann::ordered_json::parse(contents(context_.node().folder / "metrics.json"));
  EXPECT_EQ(json.at("epoch"), 2);
  EXPECT_EQ(json.at("step"), 40);
  EXPECT_EQ(json.at("top1"), 0.75);
  EXPECT_EQ(json.at("smoke"), false);
  EXPECT_EQ(json.at("skipped"), 0);
  EXPECT_EQ(contents(context_.node().folder / "confusion_matrix.csv"),
            "label,daisy,rose,tulip\ndaisy,1,0,0\nrose,0,1,0\ntulip,0,1,1\n");
  EXPECT_THAT(contents(context_.node().folder / "predictions.csv"),
              HasSubstr("\nimage2,tulip,rose,false,0.9"));
  EXPECT_THAT(contents(context_.node().folder / "report.txt"),
              HasSubstr("weighted avg       0.88"));
}

TEST_F(ClassificationOutputs, WritesResultsUnderThePublishedNames) {
  run(flowers());
  const auto results =
      nlohmann::ordered_json::parse(contents(context_.node().folder / "evaluation_results.json"));
  std::vector<std::string> names;
  for (const auto& [name, value] : results.items()) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("test_loss", "test_accuracy", "predictions", "labels",
                                 "confusion_matrix", "classification_report"));
  EXPECT_NEAR(results.at("test_loss"), std::log(1 + 2 * std::exp(-3.0)) + 3.0 / 4, 1e-6);
  EXPECT_EQ(results.at("test_accuracy"), 0.75);
  EXPECT_EQ(results.at("predictions").dump(), "[0,1,1,2]");
  EXPECT_EQ(results.at("labels").dump(), "[0,1,2,2]");
  EXPECT_EQ(results.at("confusion_matrix").dump(), "[[1,0,0],[0,1,0],[0,1,1]]");
  EXPECT_EQ(results.at("classification_report").at("tulip").dump(),
            R"({"precision":1.0,"recall":0.5,"f1-score":0.6666666666666666,"support":2.0})");
}

TEST_F(ClassificationOutputs, WritesItsCurves) {
  run(flowers());
  const auto curves = nlohmann::json::parse(contents(context_.node().folder / "curves.json"));
  EXPECT_EQ(curves.at("roc").at("classes").size(), 3u);
  EXPECT_EQ(curves.at("roc").at("classes").at(2).at("class"), "tulip");
  EXPECT_EQ(curves.at("calibration").at("bins").size(), 15u);
  const auto metrics = nlohmann::json::parse(contents(context_.node().folder / "metrics.json"));
  EXPECT_EQ(metrics.at("auc_macro"), curves.at("roc").at("auc_macro"));
  EXPECT_EQ(metrics.at("calibration_error"), curves.at("calibration").at("error"));
}

TEST_F(ClassificationOutputs, StoredTemperatureCalibratesProbabilities) {
  checkpoint_->validation = {{"loss", 1}, {"temperature", 2.0}};
  const auto outputs = run(flowers());
  const auto predictions = std::static_pointer_cast<const Predictions>(outputs.at("predictions"));
  EXPECT_TRUE(predictions->scores.allclose((four_samples() / 2).softmax(1)));
  const auto metrics =
      nlohmann::ordered_json::parse(contents(context_.node().folder / "metrics.json"));
  EXPECT_EQ(metrics.at("temperature"), 2);
  EXPECT_EQ(metrics.at("top1"), 0.75);
  EXPECT_NEAR(metrics.at("log_loss"), std::log(1 + 2 * std::exp(-1.5)) + 1.5 / 4, 1e-6);
  EXPECT_NEAR(metrics.at("log_loss_uncalibrated"), std::log(1 + 2 * std::exp(-3.0)) + 3.0 / 4,
              1e-6);
  EXPECT_NEAR(metrics.at("calibration_error_uncalibrated"), 1 / (1 + 2 * std::exp(-3.0)) - 0.75,
              1e-6);
  EXPECT_EQ(context_.values("evaluate/temperature").size(), 1u);
  EXPECT_THAT(context_.said,
              testing::Contains("logits are divided by the temperature 2.0000, which was fitted on "
                                "the validation data"));
  run(flowers(), R"({"temperature": 1})");
  EXPECT_EQ(context_.values("evaluate/temperature").size(), 1u);
}

TEST_F(ClassificationOutputs, ThresholdDecidesBetweenTwoClasses) {
  checkpoint_->classes = {"well", "ill"};
  const auto samples = std::make_shared<NumberRows>(
      torch::tensor({{0.0, -1.0}, {0.0, -3.0}, {0.0, -1.0}, {0.0, 1.0}}, at::kFloat),
      std::vector<std::int64_t>{0, 0, 1, 1}, checkpoint_->classes);
  run(samples, R"({"threshold": 0.25})");
  EXPECT_THAT(context_.values("evaluate/sensitivity"), ElementsAre(1));
  EXPECT_THAT(context_.values("evaluate/specificity"), ElementsAre(0.5));
  EXPECT_THAT(context_.values("evaluate/top1"), ElementsAre(0.75));
  EXPECT_THAT(contents(context_.node().folder / "predictions.csv"),
              HasSubstr("\nimage0,well,ill,false,0.26"));
  checkpoint_->validation = {{"decision_threshold", 0.5}};
  run(samples);
  EXPECT_THAT(context_.values("evaluate/sensitivity"), ElementsAre(1, 0.5));
}

TEST_F(ClassificationOutputs, ThresholdBetweenThreeClassesIsRejected) {
  EXPECT_REFUSED(refusal(flowers(), R"({"threshold": 0.25})"), kOptionConflict, "/threshold",
                 "two classes", "has 3");
}

TEST_F(ClassificationOutputs, PredictionsCsvIsOptional) {
  run(flowers(), R"({"csv": false})");
  EXPECT_FALSE(std::filesystem::exists(context_.node().folder / "predictions.csv"));
  EXPECT_TRUE(std::filesystem::exists(context_.node().folder / "confusion_matrix.csv"));
}

TEST_F(ClassificationOutputs, NonUtf8ClassNamesAreStillWritten) {
  checkpoint_->classes = {"d\xE9j\xE0", "rose", "tulip"};
  run(std::make_shared<NumberRows>(four_samples(), std::vector<std::int64_t>{0, 1, 2, 2},
                                   checkpoint_->classes));
  const auto json = nlohmann::json::parse(contents(context_.node().folder / "metrics.json"));
  EXPECT_EQ(json.at("per_class").at(0).at("class"), "d\uFFFDj\uFFFD");
  const auto results =
      nlohmann::json::parse(contents(context_.node().folder / "evaluation_results.json"));
  EXPECT_TRUE(results.at("classification_report").contains("d\uFFFDj\uFFFD"));
  EXPECT_EQ(nlohmann::json::parse(contents(context_.node().folder / "curves.json"))
                .at("roc")
                .at("classes")
                .at(0)
                .at("class"),
            "d\uFFFDj\uFFFD");
}

}  // namespace
}  // namespace stages
