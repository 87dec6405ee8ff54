// End-to-end tests of temperatures, cut points and thresholds fitted on validation data.

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/killed_run.h"
#include "tests/support/program.h"
#include "tests/support/shared_folder.h"

namespace {

using testing::HasSubstr;

class CalibratedRuns : public testing::Test {
 protected:
  void SetUp() override {
    if (folder_.is_made()) return;
    const Ended made = retort(
        "data make image_folder --out photos --classes 3 --per-class 16 --size 32 --seed 5 -q",
        folder_.path());
    ASSERT_EQ(made.exit, 0) << made.err;
    const Ended ran = retort("run classify run.dir=run " + kSmall, folder_.path());
    ASSERT_EQ(ran.exit, 0) << ran.err;
    folder_.keep();
  }
  nlohmann::json json(const std::string& file) const {
    return nlohmann::json::parse(file_text(folder_ / file));
  }

  inline static const std::string kSmall =
      "data.root=photos data.image_size=24 'data.split={train: 0.5, validation: 0.25, test: 0.25}' "
      "epochs=3 batch_size=8 train.calibration.temperature=true ";
  SharedFolder folder_;
};

TEST_F(CalibratedRuns, ResumedRunHasTheSameTemperature) {
  expect_same_evaluation_when_resumed(folder_.path(), "run", "classify " + kSmall);
}

TEST_F(CalibratedRuns, TestDataDoesNotAffectTheTemperature) {
  const Ended on_others = retort(
      "evaluate run run.dir=trained +evaluate.inputs.test=data.train evaluate.allow_trained=true",
      folder_.path());
  EXPECT_EQ(on_others.exit, 0) << on_others.err;
  EXPECT_EQ(json("run/nodes/evaluate/metrics.json")["temperature"],
            json("trained/nodes/evaluate/metrics.json")["temperature"]);
  const Ended without =
      retort("evaluate run run.dir=without evaluate.temperature=1", folder_.path());
  EXPECT_EQ(without.exit, 0) << without.err;
  EXPECT_EQ(json("without/nodes/evaluate/metrics.json")["log_loss"],
            json("run/nodes/evaluate/metrics.json")["log_loss_uncalibrated"]);
}

TEST_F(CalibratedRuns, PredictAndEvaluateGiveTheSameProbabilities) {
  const std::string predictions = file_text(folder_ / "run/nodes/evaluate/predictions.csv");
  const std::size_t line = predictions.find('\n') + 1, comma = predictions.find(',', line);
  const std::string image = predictions.substr(line, comma - line),
                    rest = predictions.substr(comma, predictions.find('\n', line) - comma);
  const Ended ended = retort("predict run --top 1 --batch-size 64 photos/" + image, folder_.path());
  EXPECT_EQ(ended.exit, 0) << ended.err;
  const std::size_t probability = ended.out.rfind(',');
  EXPECT_THAT(rest, HasSubstr(ended.out.substr(probability, 6)));
  EXPECT_THAT(ended.err, HasSubstr("calibrated with the temperature"));
}

TEST_F(CalibratedRuns, ExportDividesLogitsByTheTemperature) {
  const Ended ended = retort("export run --out exported", folder_.path());
  EXPECT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(
      file_text(folder_ / "exported/README.md"),
      HasSubstr("probabilities = (logits / " +
                json("run/nodes/evaluate/metrics.json")["temperature"].dump() + ").softmax(-1)"));
}

TEST_F(CalibratedRuns, CalibrationWithoutValidationDataIsRejected) {
  const Ended ended =
      retort("plan classify " + kSmall +
                 " 'data.split={train: 0.75, validation: 0, test: 0.25}' train.patience=null",
             folder_.path());
  EXPECT_NE(ended.exit, 0);
  EXPECT_THAT(ended.err, HasSubstr("calibration needs validation data"));
}

TEST_F(CalibratedRuns, CalibrationOnTheTestFoldIsRejected) {
  const Ended ended = retort("validate classify " + kSmall + " data.folds.count=3", folder_.path());
  EXPECT_EQ(ended.exit, 78);
  EXPECT_THAT(ended.err, HasSubstr("calibration would be fitted on the fold"));
}

TEST_F(CalibratedRuns, CutPointsRequireGrading) {
  const Ended ended =
      retort("validate classify " + kSmall + " train.calibration.cut_points=true", folder_.path());
  EXPECT_EQ(ended.exit, 78);
  EXPECT_THAT(ended.err, HasSubstr("evaluate with evaluate.grading"));
}

}  // namespace
