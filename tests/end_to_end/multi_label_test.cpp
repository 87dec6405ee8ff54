// End-to-end tests of multi-label training.

#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/killed_run.h"
#include "tests/support/label_table.h"
#include "tests/support/program.h"
#include "tests/support/shared_folder.h"

namespace {

using testing::HasSubstr;

class MultiLabelRuns : public testing::Test {
 protected:
  void SetUp() override {
    if (folder_.is_made()) return;
    const Ended made = retort(
        "data make image_folder --out photos --classes 3 --per-class 12 --size 32 --seed 5 -q",
        folder_.path());
    ASSERT_EQ(made.exit, 0) << made.err;
    write_label_table(folder_ / "photos");
    const Ended ran = retort("run multi_label run.dir=run " + kSmall, folder_.path());
    ASSERT_EQ(ran.exit, 0) << ran.err;
    folder_.keep();
  }
  nlohmann::json json(const std::string& file) const {
    return nlohmann::json::parse(file_text(folder_ / file));
  }

  inline static const std::string kSmall =
      "data.root=photos data.image_size=24 'data.split={train: 0.5, validation: 0.25, test: 0.25}' "
      "epochs=3 batch_size=8 ";
  SharedFolder folder_;
};

TEST_F(MultiLabelRuns, ResumedRunGivesTheSameResults) {
  expect_same_evaluation_when_resumed(folder_.path(), "run", "multi_label " + kSmall);
}

TEST_F(MultiLabelRuns, PredictAndEvaluateGiveTheSameLabels) {
  const std::string predictions = file_text(folder_ / "run/nodes/evaluate/predictions.csv");
  const std::size_t line = predictions.find('\n') + 1, comma = predictions.find(',', line);
  const std::string image = predictions.substr(line, comma - line);
  const std::size_t label_end = predictions.find(',', comma + 1);
  const std::string predicted =
      predictions.substr(label_end + 1, predictions.find(',', label_end + 1) - label_end - 1);
  const Ended ended = retort("predict run --top 1 photos/" + image, folder_.path());
  EXPECT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(ended.out, testing::StartsWith("file,labels,class_1,probability_1\n"));
  EXPECT_THAT(ended.out, HasSubstr(image + "," + predicted + ","));
}

TEST_F(MultiLabelRuns, TestDataDoesNotAffectTheThresholds) {
  const Ended on_others = retort(
      "evaluate run run.dir=trained +evaluate.inputs.test=data.train evaluate.allow_trained=true",
      folder_.path());
  EXPECT_EQ(on_others.exit, 0) << on_others.err;
  const auto ours = json("run/nodes/evaluate/metrics.json")["per_label"],
             theirs = json("trained/nodes/evaluate/metrics.json")["per_label"];
  ASSERT_EQ(ours.size(), 4);
  for (std::size_t label = 0; label < ours.size(); ++label)
    EXPECT_EQ(ours[label]["threshold"], theirs[label]["threshold"]);
}

TEST_F(MultiLabelRuns, ExportContainsTheThresholds) {
  const Ended ended = retort("export run --out exported", folder_.path());
  EXPECT_EQ(ended.exit, 0) << ended.err;
  const auto labels = json("run/nodes/evaluate/metrics.json")["per_label"];
  const auto thresholds = json("exported/thresholds.json");
  for (std::size_t label = 0; label < labels.size(); ++label)
    EXPECT_EQ(thresholds[label], labels[label]["threshold"]);
  EXPECT_THAT(file_text(folder_ / "exported/README.md"), HasSubstr("sigmoid"));
}

TEST_F(MultiLabelRuns, TwoRanksTrainTheSameModel) {
  const Ended ended = retort(
      "run multi_label run.dir=ranks --devices 2 device.select=cpu " + kSmall, folder_.path());
  EXPECT_EQ(ended.exit, 0) << ended.err;
  const auto one = json("run/nodes/evaluate/metrics.json"),
             two = json("ranks/nodes/evaluate/metrics.json");
  EXPECT_NEAR(one["mean_average_precision"], two["mean_average_precision"], 1e-3);
}

TEST_F(MultiLabelRuns, AnalyzeAndReportDrawLabelCurves) {
  const Ended drawn = retort("analyze run --out drawn", folder_.path());
  EXPECT_EQ(drawn.exit, 0) << drawn.err;
  EXPECT_THAT(file_text(folder_ / "drawn/label_curves.svg"), HasSubstr("Precision by recall"));
  const Ended reported = retort("report run --out report.html", folder_.path());
  EXPECT_EQ(reported.exit, 0) << reported.err;
  EXPECT_THAT(file_text(folder_ / "report.html"), HasSubstr("Precision, recall and ROC of"));
}

TEST_F(MultiLabelRuns, CompareTestsTheSubsetAccuracy) {
  const Ended evaluated =
      retort("evaluate run run.dir=strict evaluate.threshold=0.9", folder_.path());
  EXPECT_EQ(evaluated.exit, 0) << evaluated.err;
  const Ended ended = retort("compare run strict --paired --json", folder_.path());
  EXPECT_EQ(ended.exit, 0) << ended.err;
  const auto paired = nlohmann::json::parse(ended.out)["result"]["paired"][0];
  const double difference =
      json("strict/nodes/evaluate/metrics.json")["subset_accuracy"].get<double>() -
      json("run/nodes/evaluate/metrics.json")["subset_accuracy"].get<double>();
  EXPECT_NEAR(paired["subset_accuracy"]["difference"].get<double>(), difference, 1e-12);
  const Ended drawn = retort("compare run strict --paired --out drawn_pair", folder_.path());
  EXPECT_EQ(drawn.exit, 66);
  EXPECT_THAT(drawn.err, HasSubstr("leave out --sort and --out"));
}

TEST_F(MultiLabelRuns, ClassFoldersCanProvideTheLabels) {
  int number = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / "photos")) {
    if (entry.path().extension() != ".jpg") continue;
    const std::string label = entry.path().parent_path().filename(),
                      name = label + "_" + entry.path().filename().string();
    std::vector<std::string> labels = {label};
    if (number++ % 2 == 1) labels.emplace_back("z_second");
    for (const std::string& one : labels) {
      std::filesystem::create_directories(folder_ / "folders" / one);
      std::filesystem::copy_file(entry.path(), folder_ / "folders" / one / name);
    }
  }
  const std::string words =
      "multi_label data=image_folder data.multi_label=true data.root=folders data.image_size=24 "
      "'data.split={train: 0.5, validation: 0.25, test: 0.25}' ";
  const Ended checked = retort("data check " + words, folder_.path());
  EXPECT_EQ(checked.exit, 0) << checked.err;
  EXPECT_THAT(checked.out, testing::StartsWith("data: 36 images, "));
  EXPECT_THAT(checked.err, testing::Not(HasSubstr("no part"))) << "z_second has only copies";
  const Ended ran =
      retort("run " + words + "run.dir=of_folders epochs=1 batch_size=8", folder_.path());
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_EQ(json("of_folders/nodes/evaluate/metrics.json")["per_label"].size(), 4);
}

TEST_F(MultiLabelRuns, SingleLabelStagesAreRejectedBeforeTheyRun) {
  const Ended ended =
      retort("validate multi_label data.root=photos train=from_scratch", folder_.path());
  EXPECT_EQ(ended.exit, 78);
  EXPECT_THAT(ended.err, HasSubstr("use train.multi_label"));
  const Ended other =
      retort("validate classify data.root=photos train=multi_label", folder_.path());
  EXPECT_EQ(other.exit, 78);
  EXPECT_THAT(other.err, HasSubstr("class folders provide one class per image"));
}

}  // namespace
