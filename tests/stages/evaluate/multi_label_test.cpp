#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <torch/nn/module.h>
#include <nlohmann/json.hpp>

#include "runner/shared/stage/stage.h"
#include "stages/artifact/label_thresholds.h"
#include "stages/artifact/model.h"
#include "stages/evaluate/multi_label_metrics.h"
#include "stages/stages.h"
#include "tests/support/label_points.h"
#include "tests/support/number_rows.h"
#include "tests/support/recording_context.h"
#include "tests/support/refused.h"
#include "tests/support/shown_dataset.h"
#include "tests/support/stage_of.h"

namespace stages {
namespace {

using testing::Contains;
using testing::HasSubstr;

/// Labeled samples that contain their logits as "image".
class MarkedRows final : public Dataset {
 public:
  MarkedRows(at::Tensor rows, at::Tensor labels, std::vector<std::string> classes)
      : rows_(std::move(rows)), labels_(std::move(labels)), classes_(std::move(classes)) {}
  DatasetDescription describe() const override {
    return {.size = rows_.size(0),
            .tensors = {{"image", {rows_.size(1)}, at::kFloat},
                        {"labels", {labels_.size(1)}, at::kByte}},
            .classes = classes_};
  }
  std::optional<NamedTensors> sample(std::int64_t, std::int64_t index) const override {
    return NamedTensors{{"image", rows_[index]}, {"labels", labels_[index]}};
  }
  std::string sample_name(std::int64_t index) const override {
    return "image" + std::to_string(index);
  }
  LoaderOptions loader() const override { return {}; }

 private:
  const at::Tensor rows_, labels_;
  const std::vector<std::string> classes_;
};

class MultiLabelEvaluation : public testing::Test {
 protected:
  MultiLabelEvaluation() {
    const auto model = std::make_shared<EchoModel>();
    checkpoint_->network = model->build({}, 0);
    checkpoint_->model = model;
    checkpoint_->classes = {"red", "blue"};
  }
  static at::Tensor logits() {
    return torch::tensor({{2.0, -3.0}, {-1.0, 1.0}, {0.5, 0.5}, {-2.0, -1.0}}, at::kFloat);
  }
  static std::shared_ptr<Dataset> rows() {
    return std::make_shared<MarkedRows>(logits(),
                                        torch::tensor({{1, 0}, {0, 1}, {1, 0}, {0, 1}}, at::kByte),
                                        std::vector<std::string>{"red", "blue"});
  }
  nlohmann::json run(const std::shared_ptr<const Dataset>& test,
                     const std::string& options = "{}") {
    stage_of(kEvaluateMultiLabel, options)
        ->run(runner::Inputs({{"test", {test}}, {"checkpoint", {checkpoint_}}}), context_);
    return nlohmann::json::parse(file("metrics.json"));
  }
  std::string file(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(context_.node().folder / name).rdbuf();
    return text.str();
  }

  const std::shared_ptr<Checkpoint> checkpoint_ = std::make_shared<Checkpoint>();
  RecordingContext context_;
};

TEST_F(MultiLabelEvaluation, DefaultThresholdIsOneHalf) {
  const nlohmann::json metrics = run(rows());
  EXPECT_EQ(metrics["per_label"][0]["f1"], 1.0);
  EXPECT_EQ(metrics["per_label"][1]["f1"], 0.5);
  EXPECT_EQ(metrics["hamming_loss"], 2.0 / 8);
  EXPECT_EQ(metrics["subset_accuracy"], 0.5);
  EXPECT_THAT(context_.said, Contains(HasSubstr("no thresholds from validation data")));
}

TEST_F(MultiLabelEvaluation, ExamplesAreSaved) {
  run(std::make_shared<ShownSamples>(rows()), R"({"examples": 1, "threshold": 0.5})");
  const nlohmann::json examples = written_examples(context_.node().folder);
  EXPECT_THAT(names_of_group(examples, "samples with the largest loss"),
              testing::ElementsAre("image2"));
  EXPECT_EQ(examples[0]["labels"], nlohmann::json::parse(R"(["red"])"));
  EXPECT_EQ(examples[0]["predicted"], nlohmann::json::parse(R"(["red", "blue"])"));
}

TEST_F(MultiLabelEvaluation, TrainedThresholdsAreUsed) {
  for (const auto& [name, value] : named_thresholds({0.5, 0.2}))
    checkpoint_->validation[name] = value;
  const nlohmann::json metrics = run(rows());
  EXPECT_EQ(metrics["per_label"][1]["threshold"], 0.2);
  EXPECT_EQ(metrics["per_label"][1]["recall"], 1.0);
  EXPECT_EQ(run(rows(), R"({"threshold": 0.9})")["per_label"][1]["recall"], 0.0);
}

TEST_F(MultiLabelEvaluation, PredictionsHaveLabelsAndProbabilities) {
  run(rows());
  EXPECT_THAT(file("predictions.csv"),
              testing::StartsWith("name,label,predicted,correct,p_red,p_blue\n"
                                  "image0,red,red,true,0.8807970779778823,"));
  EXPECT_THAT(file("predictions.csv"), HasSubstr("\nimage2,red,red|blue,false,"));
}

TEST_F(MultiLabelEvaluation, CurvesAreWritten) {
  const nlohmann::json metrics = run(rows()), curves = nlohmann::json::parse(file("curves.json"));
  EXPECT_EQ(curves["labels"], 2);
  EXPECT_EQ(curves["precision_recall"]["mean_average_precision"],
            metrics["mean_average_precision"]);
  EXPECT_EQ(curves["precision_recall"]["classes"].size(), 2);
  EXPECT_EQ(curves["roc"]["classes"][0]["class"], "red");
}

TEST_F(MultiLabelEvaluation, TestSetMayHaveFewerLabelsInAnotherOrder) {
  checkpoint_->classes = {"green", "red", "blue"};
  const at::Tensor three = torch::cat({torch::full({4, 1}, 9.0f), logits()}, 1);
  const nlohmann::json metrics = run(std::make_shared<MarkedRows>(
      three, torch::tensor({{0, 1}, {1, 0}, {0, 1}, {1, 0}}, at::kByte),
      std::vector<std::string>{"blue", "red"}));
  EXPECT_EQ(metrics["per_label"].size(), 2);
  EXPECT_EQ(metrics["per_label"][0]["label"], "red");
  EXPECT_EQ(metrics["per_label"][0]["f1"], 1.0);
  EXPECT_EQ(metrics["hamming_loss"], 2.0 / 8) << "the label 'green' is left out";
}

TEST_F(MultiLabelEvaluation, SingleLabelDataIsRejected) {
  EXPECT_REFUSED(run(std::make_shared<NumberRows>(logits(), std::vector<std::int64_t>{0, 1, 0, 1},
                                                  checkpoint_->classes)),
                 kOptionConflict, "", "evaluate.classification");
}

TEST(MultiLabelMetrics, LabelIsPredictedAtOrAboveItsThreshold) {
  EXPECT_TRUE(is_predicted(0, 0.5));
  EXPECT_FALSE(is_predicted(-1e-6, 0.5));
}

TEST(MultiLabelMetrics, LabelWithoutPositivesHasNoRankingMetrics) {
  const at::Tensor logits = torch::tensor({{1.0, 1.0}, {-1.0, 2.0}}, at::kFloat),
                   labels = torch::tensor({{1, 0}, {0, 0}}, at::kByte);
  const MultiLabelMetrics metrics = multi_label_metrics(logits, labels, {0.5, 0.5});
  EXPECT_EQ(metrics.of_label[1].average_precision, std::nullopt);
  EXPECT_EQ(metrics.of_label[1].area, std::nullopt);
  EXPECT_EQ(metrics.mean_average_precision, 1.0) << "the mean covers only the others";
  EXPECT_EQ(metrics.macro.f1, 0.5) << "as in scikit-learn with zero_division=0";
}

}  // namespace
}  // namespace stages
