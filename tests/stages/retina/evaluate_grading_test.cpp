#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/shared/stage/stage.h"
#include "stages/artifact/model.h"
#include "stages/stages.h"
#include "tests/support/number_rows.h"
#include "tests/support/recording_context.h"
#include "tests/support/refused.h"
#include "tests/support/stage_of.h"

namespace stages {
namespace {

using nlohmann::json;
using testing::HasSubstr;

/// One sample for each given grade; the logit of the predicted grade is 3.
std::shared_ptr<NumberRows> graded(
    const std::vector<std::pair<std::int64_t, std::int64_t>>& grades_and_predictions) {
  std::vector<std::int64_t> grades;
  const at::Tensor logits = torch::zeros({std::ssize(grades_and_predictions), 3});
  for (const auto& [grade, predicted] : grades_and_predictions) {
    logits[std::ssize(grades)][predicted] = 3;
    grades.push_back(grade);
  }
  return std::make_shared<NumberRows>(logits, grades,
                                      std::vector<std::string>{"none", "mild", "severe"}, "eye");
}

struct GradingRun {
  GradingRun() {
    network->model = std::make_shared<EchoModel>();
    network->classes = {"none", "mild", "severe"};
    network->network = network->model->build({}, 0);
  }
  json operator()(const std::string& options = "{}") {
    const auto stage = stage_of(kEvaluateGrading, options);
    const auto test = graded({{0, 0}, {0, 0}, {1, 0}, {1, 1}, {2, 2}, {2, 0}});
    stage->run(runner::Inputs({{"test", {test}}, {"checkpoint", {network}}}), context);
    return json::parse(file("metrics.json"));
  }
  std::string file(const std::string& name) const {
    std::ifstream stream(context.node().folder / name);
    std::ostringstream text;
    text << stream.rdbuf();
    return text.str();
  }
  runner::Diagnostics refusal(const std::string& options = "{}") {
    return refusals_of([&] { (*this)(options); });
  }

  std::shared_ptr<Checkpoint> network = std::make_shared<Checkpoint>();
  RecordingContext context;
};

TEST(Grading, WeighsErrorsByTheSquaredDistance) {
  GradingRun run;
  const json record = run();
  EXPECT_EQ(record.at("confusion_matrix"), json::parse("[[2,0,0],[1,1,0],[1,0,1]]"));
  const json numbers = record.at("grading").at("numbers");
  // The mean squared distance is (1 + 4) / 6, and by chance
  // (2·(1 + 4) + 2·(4 + 1) + 2·(16 + 1)) / 36, so kappa is 1 - 30 / 54.
  EXPECT_NEAR(numbers.at("quadratic_kappa").get<double>(), 1 - 30.0 / 54, 1e-12);
  EXPECT_EQ(numbers.at("sensitivity/severe"), 0.5);
  EXPECT_EQ(numbers.at("specificity/none"), 0.5);
  EXPECT_EQ(run.context.values("evaluate/quadratic_kappa").size(), 1u);
  EXPECT_EQ(numbers.at("mean_absolute_error"), (1 + 2) / 6.0);
  EXPECT_TRUE(record.at("grading").at("intervals").contains("mean_absolute_error"));
  EXPECT_EQ(run.context.values("evaluate/mean_absolute_error"), std::vector<double>{0.5});
}

TEST(Grading, EachSampleHasALine) {
  GradingRun run;
  run();
  EXPECT_THAT(
      run.file("predictions.csv"),
      testing::StartsWith("name,grade,prediction,p_none,p_mild,p_severe\neye0,none,none,0.9"));
  EXPECT_THAT(run.file("predictions.csv"), HasSubstr("\neye5,severe,none,0.9"));
  GradingRun without;
  without(R"({"csv": false})");
  EXPECT_EQ(without.file("predictions.csv"), "");
}

TEST(Grading, StoredCutPointsAreUsed) {
  GradingRun run;
  // The expected grades are 0.14 for none, 1 for mild, and 1.86 for severe.
  run.network->validation = {{"cut_point/0", 0.1}, {"cut_point/1", 1.5}};
  const json record = run();
  EXPECT_EQ(record.at("confusion_matrix"), json::parse("[[0,2,0],[0,2,0],[0,1,1]]"));
  EXPECT_EQ(record.at("cut_points"), json::parse("[0.1, 1.5]"));
  EXPECT_NEAR(record.at("quadratic_kappa_argmax").get<double>(), 1 - 30.0 / 54, 1e-12);
  EXPECT_THAT(run.file("predictions.csv"), HasSubstr("\neye0,none,mild,0.9"));
  EXPECT_EQ(run.context.values("evaluate/quadratic_kappa_argmax").size(), 1u);
  const json by_probability = run(R"({"cut_points": "none"})");
  EXPECT_EQ(by_probability.at("confusion_matrix"), json::parse("[[2,0,0],[1,1,0],[1,0,1]]"));
}

TEST(Grading, StoredTemperatureCalibratesProbabilities) {
  GradingRun run;
  run.network->validation = {{"temperature", 2.0}};
  const json record = run();
  EXPECT_EQ(record.at("temperature"), 2);
  EXPECT_LT(record.at("log_loss"), record.at("log_loss_uncalibrated"));
}

TEST(Grading, NetworkWithTwoClassesIsRejected) {
  GradingRun run;
  run.network->pair_of = 3;
  EXPECT_REFUSED(run.refusal(), kOptionConflict, "", "a single logit");
}

TEST(Grading, ReferableGradeMustExist) {
  GradingRun run;
  EXPECT_REFUSED(run.refusal(R"({"referable_from": 3})"), kOptionConflict, "/referable_from");
}

}  // namespace
}  // namespace stages
