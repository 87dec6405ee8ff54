#include <cmath>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <torch/nn/module.h>
#include <nlohmann/json.hpp>

#include "runner/shared/stage/stage.h"
#include "stages/artifact/model.h"
#include "stages/evaluate/regression_metrics.h"
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

/// Samples with targets that contain their outputs as "image".
class NumberedRows final : public Dataset {
 public:
  NumberedRows(at::Tensor rows, at::Tensor targets, std::vector<std::string> names)
      : rows_(std::move(rows)), targets_(std::move(targets)), names_(std::move(names)) {}
  DatasetDescription describe() const override {
    return {.size = rows_.size(0),
            .tensors = {{"image", {rows_.size(1)}, at::kFloat},
                        {"target", {targets_.size(1)}, at::kDouble}},
            .classes = names_};
  }
  std::optional<NamedTensors> sample(std::int64_t, std::int64_t index) const override {
    return NamedTensors{{"image", rows_[index]}, {"target", targets_[index]}};
  }
  std::string sample_name(std::int64_t index) const override {
    return "image" + std::to_string(index);
  }
  LoaderOptions loader() const override { return {}; }

 private:
  const at::Tensor rows_, targets_;
  const std::vector<std::string> names_;
};

class RegressionEvaluation : public testing::Test {
 protected:
  RegressionEvaluation() {
    const auto model = std::make_shared<EchoModel>();
    checkpoint_->network = model->build({}, 0);
    checkpoint_->model = model;
    checkpoint_->classes = {"age"};
    checkpoint_->targets = {.mean = {20}, .standard_deviation = {10}, .are_standardized = true};
  }
  static at::Tensor column(std::vector<double> numbers) {
    return torch::tensor(numbers, at::kDouble).unsqueeze(1);
  }
  /// Returns predictions of 20, 30, 10 and 25.
  static std::shared_ptr<Dataset> rows(std::vector<double> ages, const std::string& name = "age") {
    return std::make_shared<NumberedRows>(column({0, 1, -1, 0.5}).to(at::kFloat),
                                          column(std::move(ages)), std::vector{name});
  }
  nlohmann::json run(const std::shared_ptr<const Dataset>& test,
                     const std::string& options = R"({"bootstrap": 20})") {
    stage_of(kEvaluateRegression, options)
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

TEST_F(RegressionEvaluation, ErrorsAreInTheUnitOfTheTarget) {
  const nlohmann::json metrics = run(rows({22, 30, 14, 25}));
  EXPECT_EQ(metrics["mae"], 1.5);
  EXPECT_EQ(metrics["rmse"], std::sqrt(5.0));
  EXPECT_EQ(metrics["baseline"]["mae"], (2 + 10 + 6 + 5) / 4.0) << "predicting 20";
  EXPECT_EQ(metrics["per_target"][0]["target"], "age");
  EXPECT_LE(metrics["intervals"]["mae"][0], metrics["mae"]);
  EXPECT_GE(metrics["intervals"]["mae"][1], metrics["mae"]);
}

TEST_F(RegressionEvaluation, PredictionsHaveTargetAndResidual) {
  run(rows({22, 30, 14, 25}));
  EXPECT_EQ(file("predictions.csv"),
            "name,target,prediction,residual\nimage0,22,20,2\nimage1,30,30,0\n"
            "image2,14,10,4\nimage3,25,25,0\n");
}

TEST_F(RegressionEvaluation, ExamplesAreSaved) {
  run(std::make_shared<ShownSamples>(rows({22, 30, 14, 25})), R"({"bootstrap": 0, "examples": 1})");
  const nlohmann::json examples = written_examples(context_.node().folder);
  EXPECT_THAT(names_of_group(examples, "samples with the largest errors"),
              testing::ElementsAre("image2"));
  EXPECT_EQ(examples[0]["targets"][0]["prediction"], 10);
}

TEST_F(RegressionEvaluation, EqualTargetsHaveNoR2) {
  const nlohmann::json metrics = run(rows({30, 30, 30, 30}));
  EXPECT_TRUE(metrics["r2"].is_null());
  EXPECT_FALSE(metrics["intervals"].contains("r2"));
  EXPECT_THAT(context_.said, Contains(HasSubstr("R² of 'age' is undefined")));
}

TEST_F(RegressionEvaluation, EachTargetHasItsOwnErrors) {
  checkpoint_->classes = {"age", "weight"};
  checkpoint_->targets = {};
  const at::Tensor two = torch::tensor({{1.0, 5.0}, {2.0, 7.0}}, at::kDouble);
  const nlohmann::json metrics = run(std::make_shared<NumberedRows>(
      (two + torch::tensor({1.0, 3.0})).to(at::kFloat), two, checkpoint_->classes));
  EXPECT_EQ(metrics["mae"], 2.0);
  EXPECT_EQ(metrics["per_target"][1]["mae"], 3.0);
  EXPECT_TRUE(metrics["baseline"].is_null());
  EXPECT_THAT(file("predictions.csv"),
              testing::StartsWith("name,target_age,prediction_age,residual_age,target_weight,"
                                  "prediction_weight,residual_weight\n"));
}

TEST_F(RegressionEvaluation, ClassesAndOtherTargetsAreRejected) {
  EXPECT_REFUSED(run(rows({1, 2, 3, 4}, "weight")), kOptionConflict, "", "'weight'");
  EXPECT_REFUSED(
      run(std::make_shared<NumberRows>(column({1, 2}).to(at::kFloat),
                                       std::vector<std::int64_t>{0, 0}, checkpoint_->classes)),
      kOptionConflict, "", "evaluate.classification");
}

TEST(RegressionMetrics, IntervalDependsOnTheSeed) {
  const at::Tensor targets = torch::arange(20, at::kDouble).unsqueeze(1);
  const PredictedTargets tested{
      .names = {"x"}, .predictions = (targets * 0.9).contiguous(), .targets = targets};
  const auto interval = [&](std::uint64_t seed) {
    return regression_metrics(tested, {}, 50, seed).intervals.at("rmse").low;
  };
  EXPECT_EQ(interval(1), interval(1));
  EXPECT_NE(interval(1), interval(2));
}

}  // namespace
}  // namespace stages
