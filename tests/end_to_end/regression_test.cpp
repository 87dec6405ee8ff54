// End-to-end tests of regression.

#include <cmath>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/killed_run.h"
#include "tests/support/program.h"
#include "tests/support/shared_folder.h"
#include "tests/support/target_table.h"

namespace {

using testing::HasSubstr;

class RegressionRuns : public testing::Test {
 protected:
  void SetUp() override {
    if (folder_.is_made()) return;
    const Ended made = retort(
        "data make image_folder --out photos --classes 3 --per-class 12 --size 32 --seed 5 -q",
        folder_.path());
    ASSERT_EQ(made.exit, 0) << made.err;
    write_target_table(folder_ / "photos");
    const Ended ran = retort("run regression run.dir=run " + kSmall, folder_.path());
    ASSERT_EQ(ran.exit, 0) << ran.err;
    folder_.keep();
  }
  nlohmann::json json(const std::string& file) const {
    return nlohmann::json::parse(file_text(folder_ / file));
  }
  /// The fields of the first row of the run's predictions: name, target, prediction, residual.
  std::vector<std::string> first_prediction() const {
    std::istringstream lines(file_text(folder_ / "run/nodes/evaluate/predictions.csv"));
    std::string line, field;
    std::getline(lines, line);
    std::getline(lines, line);
    std::istringstream fields(line);
    std::vector<std::string> row;
    while (std::getline(fields, field, ',')) row.push_back(field);
    return row;
  }

  inline static const std::string kSmall =
      "data.root=photos data.image_size=24 'data.split={train: 0.5, validation: 0.25, test: 0.25}' "
      "epochs=3 batch_size=8 train.mixup=0.2 ";
  SharedFolder folder_;
};

TEST_F(RegressionRuns, ResumedRunGivesTheSameResults) {
  expect_same_evaluation_when_resumed(folder_.path(), "run", "regression " + kSmall);
}

TEST_F(RegressionRuns, PredictAndEvaluateGiveTheSameValues) {
  const std::vector<std::string> row = first_prediction();
  ASSERT_EQ(row.size(), 4u);
  const Ended ended = retort("predict run photos/" + row[0], folder_.path());
  EXPECT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(ended.out, testing::StartsWith("file,target\n"));
  const double predicted = std::stod(ended.out.substr(ended.out.rfind(',') + 1));
  const Ended classes = retort("predict run photos/" + row[0] + " --top 3", folder_.path());
  EXPECT_EQ(classes.exit, 64);
  EXPECT_THAT(classes.err, HasSubstr("--top selects classes, but this model predicts numbers"));
  // With another batch size, the last bits of float32 may round differently.
  EXPECT_NEAR(predicted, std::stod(row[2]), 1e-4 * std::abs(predicted));
}

TEST_F(RegressionRuns, ResultsHaveTheUnitOfTheTarget) {
  const nlohmann::json metrics = json("run/nodes/evaluate/metrics.json");
  EXPECT_GT(std::stod(first_prediction()[2]), 90) << "targets are 100 to 121";
  EXPECT_LT(metrics["mae"], 30);
  EXPECT_TRUE(metrics["baseline"]["mae"].is_number());
  EXPECT_TRUE(metrics["intervals"]["rmse"].is_array());
}

TEST_F(RegressionRuns, AnalyzeDrawsPredictionsAndResiduals) {
  const Ended ended = retort("analyze run --out drawn", folder_.path());
  EXPECT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("mae "));
  EXPECT_THAT(file_text(folder_ / "drawn/predictions.svg"), HasSubstr("residuals"));
}

TEST_F(RegressionRuns, ExportContainsScaleAndOffset) {
  const Ended ended = retort("export run --out exported", folder_.path());
  EXPECT_EQ(ended.exit, 0) << ended.err;
  const nlohmann::json targets = json("exported/targets.json");
  EXPECT_GT(targets["scale"][0], 1);
  EXPECT_GT(targets["offset"][0], 100);
  EXPECT_THAT(file_text(folder_ / "exported/README.md"), HasSubstr("output * scale + offset"));
}

TEST_F(RegressionRuns, SeveralTargetsArePredictedTogether) {
  const Ended ended =
      retort("run regression run.dir=two 'data.target=[target,other]' " + kSmall, folder_.path());
  EXPECT_EQ(ended.exit, 0) << ended.err;
  EXPECT_EQ(json("two/nodes/evaluate/metrics.json")["per_target"][1]["target"], "other");
  const Ended predicted = retort("predict two photos --json", folder_.path());
  EXPECT_THAT(predicted.out, HasSubstr(R"("values":{"target":)"));
}

TEST_F(RegressionRuns, PredictExplainsEachTarget) {
  const Ended trained = retort(
      "run regression run.dir=maps model=mobilenetv2_100 model.weights=null "
      "'data.target=[target,other]' " +
          kSmall + " data.image_size=32 epochs=1",
      folder_.path());
  EXPECT_EQ(trained.exit, 0) << trained.err;
  const Ended explained =
      retort("predict maps photos/" + first_prediction()[0] + " --explain why", folder_.path());
  EXPECT_EQ(explained.exit, 0) << explained.err;
  std::vector<std::string> targets;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "why")) {
    EXPECT_TRUE(file_text(entry.path()).starts_with("\x89PNG")) << entry.path();
    targets.push_back(entry.path().stem().extension());
  }
  EXPECT_THAT(targets, testing::UnorderedElementsAre(".target", ".other"));
}

TEST_F(RegressionRuns, TwoRanksTrainTheSameModel) {
  const Ended ended = retort("run regression run.dir=ranks --devices 2 device.select=cpu " + kSmall,
                             folder_.path());
  EXPECT_EQ(ended.exit, 0) << ended.err;
  const double one = json("run/nodes/evaluate/metrics.json")["rmse"],
               two = json("ranks/nodes/evaluate/metrics.json")["rmse"];
  EXPECT_NEAR(one, two, 1e-3 * one);
}

TEST_F(RegressionRuns, ClassificationStagesAreRejectedBeforeTheyRun) {
  const Ended ended =
      retort("validate regression data.root=photos train=from_scratch", folder_.path());
  EXPECT_EQ(ended.exit, 78);
  EXPECT_THAT(ended.err, HasSubstr("use train.regression"));
  const Ended other = retort("validate classify data.root=photos train=regression", folder_.path());
  EXPECT_EQ(other.exit, 78);
  EXPECT_THAT(other.err, HasSubstr("class folders provide classes"));
  const Ended both =
      retort("validate regression data.root=photos data.label=other", folder_.path());
  EXPECT_EQ(both.exit, 78);
  EXPECT_THAT(both.err, HasSubstr("remove target or label"));
  for (const char* option : {"class_weights=balanced", "label_smoothing=0.1"}) {
    const Ended unknown = retort(
        std::string("validate regression data.root=photos +train.") + option, folder_.path());
    EXPECT_EQ(unknown.exit, 78) << option;
  }
}

}  // namespace
