// End-to-end tests of a network that is tested on its own data and on images from another source.

#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"
#include "tests/support/shared_folder.h"

namespace {

using testing::HasSubstr;

class ExternalTestSet : public testing::Test {
 protected:
  void SetUp() override {
    if (folder_.is_made()) return;
    for (const char* made :
         {"aptos_2019 --out aptos --per-class 10", "eyepacs_2015 --out eyepacs --per-class 6",
          "image_folder --out photos --classes 3 --per-class 5"}) {
      const Ended ended =
          retort("data make " + std::string(made) + " --size 48 -q", folder_.path());
      ASSERT_EQ(ended.exit, 0) << ended.err;
    }
    const Ended ran =
        retort("run diabetic_retinopathy_external run.dir=run " + kSmallEyes, folder_.path());
    ASSERT_EQ(ran.exit, 0) << ran.err;
    folder_.keep();
  }
  nlohmann::json metrics(const std::string& node) const {
    return nlohmann::json::parse(file_text(folder_ / (node + "/metrics.json")));
  }

  inline static const std::string kSmallEyes =
      "data=aptos_2019 data.root=aptos external.layout=eyepacs_2015 external.root=eyepacs "
      "model.weights=null 'model.layers=[1,1,1,1]' data.image_size=32 data.loader.workers=0 "
      "external.loader.workers=0 data.crop_to_disc.enabled=true epochs=1 batch_size=8 "
      "memory.precision=fp32 evaluate_external.test_time_flip=horizontal";
  SharedFolder folder_;
};

TEST_F(ExternalTestSet, UsesTheCalibrationFromTheRunsValidationPart) {
  const auto own = metrics("run/nodes/evaluate"), external = metrics("run/nodes/evaluate_external");
  EXPECT_EQ(own["temperature"], external["temperature"]);
  EXPECT_EQ(own["cut_points"], external["cut_points"]);
  EXPECT_NE(own["samples"], external["samples"]);
  EXPECT_TRUE(external.contains("calibration_error"));
  EXPECT_TRUE(
      std::filesystem::exists(folder_ / "run/nodes/evaluate_external/suspected_labels.csv"));
}

TEST_F(ExternalTestSet, EvaluateGivesTheSameResultForAFinishedRun) {
  const Ended ended = retort(
      "evaluate run run.dir=again data.root=eyepacs data.layout=eyepacs_2015 "
      "evaluate.test_time_flip=horizontal '~external' '~evaluate_external'",
      folder_.path());
  EXPECT_EQ(ended.exit, 0) << ended.err;
  EXPECT_EQ(metrics("again/nodes/evaluate")["confusion_matrix"],
            metrics("run/nodes/evaluate_external")["confusion_matrix"]);
}

TEST_F(ExternalTestSet, IsPlannedAndPreprocessedLikeTheRunsOwnData) {
  const Ended ended = retort("plan diabetic_retinopathy_external " + kSmallEyes, folder_.path());
  EXPECT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("evaluate_external"));
  EXPECT_THAT(ended.err, testing::Not(HasSubstr("preprocessed differently")));
}

TEST_F(ExternalTestSet, UnknownClassIsRejected) {
  std::filesystem::create_directory(folder_ / "others");
  const auto copy = std::filesystem::copy_options::recursive;
  std::filesystem::copy(folder_ / "photos", folder_ / "others", copy);
  for (const auto& folder : std::filesystem::directory_iterator(folder_ / "others")) {
    std::filesystem::rename(folder.path(), folder_ / "others/zebra");
    break;
  }
  const Ended ended = retort(
      "plan classify_external data.root=photos external.root=others data.split.train=0.4 "
      "data.split.validation=0.2 data.split.test=0.4",
      folder_.path());
  EXPECT_NE(ended.exit, 0);
  EXPECT_THAT(ended.err, HasSubstr("that the network was not trained on: 'zebra'"));
}

TEST_F(ExternalTestSet, CompareSelectsOneOfTwoEvaluations) {
  const Ended both = retort("compare run run --json", folder_.path());
  EXPECT_EQ(nlohmann::json::parse(both.out)["result"]["runs"].size(), 4u) << both.err;
  const Ended one =
      retort("compare run run --paired --node evaluate_external --json", folder_.path());
  ASSERT_EQ(one.exit, 0) << one.err;
  const auto result = nlohmann::json::parse(one.out)["result"];
  EXPECT_EQ(result["runs"].size(), 2u);
  EXPECT_EQ(result["paired"].size(), 1u);
  const Ended none = retort("compare run run --node test", folder_.path());
  EXPECT_EQ(none.exit, 64);
  EXPECT_THAT(none.err, HasSubstr("name one of 'evaluate', 'evaluate_external'"));
}

TEST_F(ExternalTestSet, AnalyzeShowsSuspectedLabels) {
  const Ended ended = retort("analyze run --json", folder_.path());
  EXPECT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("\"suspected_labels\""));
}

}  // namespace
