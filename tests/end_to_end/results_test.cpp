// End-to-end tests of showing, drawing and comparing the results of runs.

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"

namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Results, AreShownDrawnAndCompared) {
  const TemporaryFolder folder;
  const auto json = [&](const std::string& file) {
    return nlohmann::json::parse(file_text(folder / file));
  };
  ASSERT_EQ(
      retort("data make image_folder --out photos --classes 3 --per-class 12 --size 32 --seed 5 -q",
             folder.path())
          .exit,
      0);
  const std::string command =
      "run classify data.root=photos data.image_size=24 data.split.validation=0.2 "
      "data.split.train=0.6 batch_size=8 -q ";
  ASSERT_EQ(retort(command + "epochs=2 run.dir=a", folder.path()).exit, 0);
  ASSERT_EQ(retort(command + "epochs=1 run.dir=b", folder.path()).exit, 0);

  const auto history = json("a/nodes/train/training_metrics.json");
  for (const char* list : {"train_losses", "val_losses", "val_accuracies", "epoch_times"}) {
    EXPECT_EQ(history.at(list).size(), 2u) << list;
  }
  const auto results = json("a/nodes/evaluate/evaluation_results.json"),
             metrics = json("a/nodes/evaluate/metrics.json");
  EXPECT_EQ(results.at("test_accuracy"), metrics.at("top1"));
  EXPECT_EQ(results.at("predictions").size(), metrics.at("samples"));

  const Ended analyzed = retort("analyze a --json", folder.path());
  ASSERT_EQ(analyzed.exit, 0) << analyzed.err;
  const auto report = nlohmann::json::parse(analyzed.out).at("result");
  EXPECT_EQ(report.at("trainings").at(0).at("train_losses"), history.at("train_losses"));
  EXPECT_EQ(report.at("evaluations").at(0).at("accuracy"), metrics.at("top1"));
  EXPECT_EQ(report.at("evaluations").at(0).at("auc_macro"), metrics.at("auc_macro"));
  EXPECT_THAT(report.at("pictures"),
              ElementsAre("a/analysis/training_curves.svg", "a/analysis/confusion_matrix.svg",
                          "a/analysis/roc.svg", "a/analysis/calibration.svg"));
  for (const std::string picture : report.at("pictures")) {
    EXPECT_THAT(file_text(folder / picture), testing::StartsWith("<svg ")) << picture;
  }

  const Ended compared = retort("compare a b --out comparison", folder.path());
  ASSERT_EQ(compared.exit, 0) << compared.err;
  EXPECT_THAT(compared.out, HasSubstr("train.epochs  2  1\n"));
  EXPECT_THAT(file_text(folder / "comparison/model_comparison.svg"), HasSubstr(">epochs=2</text>"));
}

}  // namespace
