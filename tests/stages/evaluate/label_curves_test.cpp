#include "stages/evaluate/label_curves.h"

#include <gmock/gmock.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "stages/evaluate/classification_curves.h"

namespace stages {
namespace {

using nlohmann::json;

json curves_of(const at::Tensor& logits, const at::Tensor& labels,
               const std::vector<bool>& present = {}) {
  const std::vector<double> thresholds(static_cast<std::size_t>(logits.size(1)), 0.5);
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < logits.size(1); ++i) names.push_back("label" + std::to_string(i));
  const MultiLabelMetrics metrics = multi_label_metrics(logits, labels, thresholds, present);
  return label_curves(logits, labels, metrics, names);
}

std::vector<std::string> names_of(const json& curves) {
  std::vector<std::string> names;
  for (const json& one : curves["classes"]) names.push_back(one["class"]);
  return names;
}

TEST(LabelCurves, ContainThePointsOfEachLabel) {
  const json curves = curves_of(torch::tensor({{3.0, 0.0}, {2.0, 1.0}, {1.0, 2.0}}, at::kFloat),
                                torch::tensor({{1, 0}, {0, 1}, {1, 1}}, at::kByte));
  EXPECT_EQ(curves["labels"], 2);
  EXPECT_EQ(curves["roc"]["classes"][0],
            json::parse(R"({"class": "label0", "auc": 0.5, "fpr": [0.0, 0.0, 1.0, 1.0],
                            "tpr": [0.0, 0.5, 0.5, 1.0]})"));
  const json& one = curves["precision_recall"]["classes"][0];
  EXPECT_EQ(one["class"], "label0");
  EXPECT_EQ(one["support"], 2);
  EXPECT_DOUBLE_EQ(one["average_precision"], (1 + 2.0 / 3) / 2);
  EXPECT_EQ(one["recall"], json({0.0, 0.5, 1.0}));
  EXPECT_EQ(one["precision"], json({1.0, 1.0, 2.0 / 3}));
  EXPECT_TRUE(curves["calibration"].is_null());
}

TEST(LabelCurves, LabelsWithOnlyPositivesOrOnlyNegativesHaveNoRocCurve) {
  const json curves = curves_of(torch::tensor({{1.0, 2.0, 0.5}, {2.0, 1.0, 1.5}}, at::kFloat),
                                torch::tensor({{1, 0, 1}, {0, 0, 1}}, at::kByte));
  EXPECT_EQ(curves["labels"], 3);
  EXPECT_THAT(names_of(curves["roc"]), testing::ElementsAre("label0"));
  EXPECT_THAT(names_of(curves["precision_recall"]), testing::ElementsAre("label2", "label0"));
}

TEST(LabelCurves, LabelsOutsideTheTestSetAreOmitted) {
  const json curves = curves_of(torch::tensor({{1.0, 2.0}, {2.0, 1.0}}, at::kFloat),
                                torch::tensor({{1, 0}, {0, 1}}, at::kByte), {false, true});
  EXPECT_EQ(curves["labels"], 1);
  EXPECT_THAT(names_of(curves["precision_recall"]), testing::ElementsAre("label1"));
}

TEST(LabelCurves, OnlyTheMostFrequentLabelsAreIncluded) {
  const std::int64_t width = 2 + static_cast<std::int64_t>(kMostCurves), samples = width + 1;
  at::Tensor labels = torch::zeros({samples, width}, at::kByte);
  for (std::int64_t label = 0; label < width; ++label)  // the last label is the most frequent
    labels.narrow(0, 0, label + 1).select(1, label).fill_(1);
  const at::Tensor logits =
      torch::arange(samples * width, at::kFloat).reshape({samples, width}).sin().contiguous();
  const json curves = curves_of(logits, labels);
  EXPECT_EQ(curves["labels"], width);
  const std::vector<std::string> names = names_of(curves["precision_recall"]);
  ASSERT_EQ(names.size(), kMostCurves);
  EXPECT_EQ(names.front(), "label" + std::to_string(width - 1));
  EXPECT_EQ(names.back(), "label2");
}

TEST(LabelCurves, NumberOfPointsIsLimited) {
  const std::int64_t samples = 3 * static_cast<std::int64_t>(kMostPoints);
  const at::Tensor logits = torch::arange(samples, at::kFloat).reshape({samples, 1}).contiguous();
  const json curves =
      curves_of(logits, torch::arange(samples).remainder(2).to(at::kByte).reshape({samples, 1}));
  EXPECT_EQ(curves["roc"]["classes"][0]["tpr"].size(), kMostPoints);
  const json& one = curves["precision_recall"]["classes"][0];
  EXPECT_EQ(one["recall"].size(), kMostPoints);
  EXPECT_EQ(one["precision"].size(), kMostPoints);
  EXPECT_EQ(one["recall"].back(), 1.0);
}

}  // namespace
}  // namespace stages
