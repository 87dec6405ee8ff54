// End-to-end tests of heads initialized from captions, and of averaged weights.

#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"
#include "tests/support/shared_folder.h"
#include "tests/support/small_clip.h"

namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

/// A small CLIP, trained briefly and exported to the folder `weights`.
class ZeroShotStart : public testing::Test {
 protected:
  void SetUp() override {
    if (folder_.is_made()) return;
    const auto done = [&](const std::string& line) {
      const Ended ended = retort(line, folder_.path());
      ASSERT_EQ(ended.exit, 0) << line << '\n' << ended.err;
    };
    done("data make image_folder --out photos --classes 3 --per-class 20 --size 32 --seed 5 -q");
    done("run clip_flowers data.root=photos epochs=3 batch_size=8 run.dir=clip -q " +
         std::string(kSmallClip));
    done("export clip --out weights -q");
    folder_.keep();
  }
  /// Fine-tunes on the same split.
  Ended tune(const std::string& name, const std::string& more,
             const std::string& fault = "") const {
    return run_shell(
        (fault.empty() ? "" : "RETORT_FAULT=" + fault + ' ') + RETORT_BINARY_DIR +
            "/bin/retort run finetune data=image_folder data.root=photos data.image_size=32 "
            "seed=1 model=full model/backbone=local model.backbone.weights=weights "
            "model.backbone.features=projected_normalized "
            "model.head_start=zero_shot 'model.templates=[\"a photo of a {name}.\"]' "
            ""
            "run.dir=" +
            name + ' ' + more,
        folder_.path());
  }
  json parsed(const std::string& file) const {
    return json::parse(file_text(folder_ / file), nullptr, /*allow_exceptions=*/true);
  }
  double accuracy(const std::string& run) const {
    return parsed(run + "/nodes/evaluate/metrics.json").at("top1");
  }
  std::string kept_weights(const std::string& run) const {
    const fs::path checkpoints = folder_ / (run + "/nodes/train/checkpoints");
    if (fs::exists(checkpoints / "average"))
      return file_text(checkpoints / "average/model.safetensors");
    std::string best = file_text(checkpoints / "best");
    if (!best.empty()) best.pop_back();
    return file_text(checkpoints / best / "model.safetensors");
  }
  /// The name and prediction of each test image.
  std::vector<std::string> predictions(const std::string& run) const {
    std::ifstream file(folder_ / (run + "/nodes/evaluate/predictions.csv"));
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) {
      std::istringstream cells(line);
      std::string name, label, prediction;
      std::getline(cells, name, ',');
      std::getline(cells, label, ',');
      std::getline(cells, prediction, ',');
      lines.push_back(name + ": " + prediction);
    }
    return lines;
  }
  static constexpr const char* kShort = "batch_size=8 epochs=2 lr=1e-2 ";
  SharedFolder folder_;
};

TEST_F(ZeroShotStart, UntrainedModelPredictsLikeZeroShot) {
  const Ended ended = retort("evaluate clip run.dir=zero_shot ", folder_.path());
  ASSERT_EQ(ended.exit, 0) << ended.err;
  const Ended tuned = tune("untrained", "train=none ");
  ASSERT_EQ(tuned.exit, 0) << tuned.err;
  EXPECT_THAT(tuned.err, HasSubstr("the head starts from the captions of 3 classes, 1 for each"));
  EXPECT_EQ(predictions("untrained"), predictions("zero_shot"));
  EXPECT_EQ(accuracy("untrained"), accuracy("zero_shot"));
}

TEST_F(ZeroShotStart, ResumedTrainingGivesTheSameAverage) {
  const std::string more = std::string(kShort) + "epochs=4 train.average_best=2 ";
  ASSERT_EQ(tune("whole", more).exit, 0);
  ASSERT_NE(
      tune("killed", more + "train.checkpoint.every.steps=1", "retort-worker/step:5:kill").exit, 0);
  const Ended resumed = retort("resume killed", folder_.path());
  ASSERT_EQ(resumed.exit, 0) << resumed.err;
  EXPECT_THAT(resumed.err, HasSubstr("train: the average of epochs "));
  EXPECT_TRUE(kept_weights("killed") == kept_weights("whole"));
  EXPECT_EQ(parsed("killed/nodes/evaluate/metrics.json"),
            parsed("whole/nodes/evaluate/metrics.json"));
}

TEST_F(ZeroShotStart, WiseFtIsChosenByValidationAndUsableLikeARun) {
  ASSERT_EQ(tune("tuned", std::string(kShort) + "train.keep=last").exit, 0);
  const std::string wise = "train=wise_ft 'train.runs=[tuned]' ";
  const Ended ended = tune("wise", wise);
  ASSERT_EQ(ended.exit, 0) << ended.err;
  const json table = parsed("wise/nodes/train/soup.json");
  ASSERT_EQ(table.at("measured").size(), 11u);
  for (const json& row : table.at("measured"))
    EXPECT_LE(row.at("accuracy"), table.at("chosen").at("accuracy"));
  EXPECT_EQ(retort("export wise --out exported -q", folder_.path()).exit, 0);
  EXPECT_EQ(retort("evaluate wise run.dir=again -q", folder_.path()).exit, 0);
  EXPECT_EQ(accuracy("again"), accuracy("wise"));

  const Ended divided = tune("refused", wise + "data.split.seed=7 '~evaluate'");
  EXPECT_EQ(divided.exit, 78) << divided.err;
  EXPECT_THAT(divided.err, HasSubstr("'tuned' cannot be averaged: it was trained on "));
}

TEST_F(ZeroShotStart, SoupIsNeverWorseThanTheBestRun) {
  ASSERT_EQ(tune("one", std::string(kShort) + "train.keep=last").exit, 0);
  ASSERT_EQ(tune("two", std::string(kShort) + "train.keep=last lr=3e-3").exit, 0);
  const std::string soup = "train=soup 'train.runs=[one, two]' ";
  const Ended ended = tune("soup", soup);
  ASSERT_EQ(ended.exit, 0) << ended.err;
  const json table = parsed("soup/nodes/train/soup.json");
  ASSERT_EQ(table.at("measured").size(), 3u);
  for (const int run : {0, 1})
    EXPECT_GE(table.at("chosen").at("accuracy"), table.at("measured")[run].at("accuracy"));
  const Ended alone = tune("alone", soup + "'train.runs=[one]'");
  EXPECT_EQ(alone.exit, 78);
  EXPECT_THAT(alone.err, HasSubstr("there is nothing to average"));
}

}  // namespace
