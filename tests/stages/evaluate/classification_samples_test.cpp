// Samples and classes that evaluate.classification skips, matches or rejects.

#include <gmock/gmock.h>
#include <torch/types.h>

#include <nlohmann/json.hpp>

#include "runner/shared/stage/stage.h"
#include "tests/support/classification_fixture.h"
#include "tests/support/number_rows.h"
#include "tests/support/refused.h"

namespace stages {
namespace {

using testing::ElementsAre;

using ClassificationSamples = Classification;

TEST_F(ClassificationSamples, SkippedSamplesAreCountedAndOthersKeepTheirNames) {
  const auto test = flowers();
  test->skipped = {1};
  const auto outputs = run(test);
  EXPECT_THAT(std::static_pointer_cast<const Predictions>(outputs.at("predictions"))->names,
              ElementsAre("image0", "image2", "image3"));
  EXPECT_THAT(context_.said,
              testing::Contains("1 samples were skipped because they could not be read"));
  EXPECT_EQ(nlohmann::json::parse(contents(context_.node().folder / "metrics.json")).at("skipped"),
            1);
}

TEST_F(ClassificationSamples, SkippingEverySampleIsAnError) {
  const auto test = flowers();
  test->skipped = {0, 1, 2, 3};
  EXPECT_REFUSED(refusal(test), kTooFewSamples, "", "no readable samples");
}

TEST_F(ClassificationSamples, EmptyTestSetIsAnError) {
  EXPECT_REFUSED(refusal(std::make_shared<NumberRows>(torch::zeros({0, 3}),
                                                      std::vector<std::int64_t>{}, kFlowers)),
                 kTooFewSamples, "", "~evaluate");
}

TEST_F(ClassificationSamples, ClassesAreMatchedByNameInAnyOrder) {
  const std::vector<std::string> others = {"daisy", "tulip", "rose"};
  const auto outputs = run(
      std::make_shared<NumberRows>(four_samples(), std::vector<std::int64_t>{0, 2, 1, 1}, others));
  EXPECT_TRUE(std::static_pointer_cast<const Predictions>(outputs.at("predictions"))
                  ->labels.equal(torch::tensor({0, 1, 2, 2})));
}

TEST_F(ClassificationSamples, AbsentClassesAreReportedAndNotMeasured) {
  const auto outputs = run(std::make_shared<NumberRows>(four_samples().slice(0, 1),
                                                        std::vector<std::int64_t>{1, 0, 0},
                                                        std::vector<std::string>{"tulip", "rose"}));
  EXPECT_THAT(context_.said, testing::Contains("1 of 3 classes is absent from the test set, and so "
                                               "excluded from all means over classes: 'daisy'"));
  const auto json = nlohmann::json::parse(contents(context_.node().folder / "metrics.json"));
  EXPECT_DOUBLE_EQ(json["top1"], 2 / 3.0);
  EXPECT_DOUBLE_EQ(json["macro"]["recall"], (1 + 0.5) / 2);
  EXPECT_DOUBLE_EQ(json["macro"]["precision"], (0.5 + 1) / 2);
  EXPECT_DOUBLE_EQ(json["mean_per_class"], (1 + 0.5) / 2);
  EXPECT_DOUBLE_EQ(json["chance"], 1 / 3.0);
  EXPECT_EQ(json["per_class"][0]["support"], 0);
}

TEST_F(ClassificationSamples, UnknownClassesAreRejectedWithSuggestions) {
  const auto with = [&](std::vector<std::string> classes) {
    return refusal(std::make_shared<NumberRows>(four_samples(),
                                                std::vector<std::int64_t>{0, 1, 2, 2}, classes));
  };
  EXPECT_REFUSED(with({"daisy", "roses", "tulip", "violet"}), kLabelOutOfRange, "",
                 "2 classes that", "'roses', 'violet'", "'rose' instead of 'roses'");
  EXPECT_REFUSED(with({"daisy", "rose", "tulip", "violet"}), kLabelOutOfRange, "", "1 class that",
                 "'violet'", "'daisy', 'rose', 'tulip'");
  EXPECT_REFUSED(with({"daisy", "rose", "rose"}), kLabelOutOfRange, "", "two classes", "'rose'");
}

TEST_F(ClassificationSamples, LabelWithoutAnOutputIsRejectedWithItsSample) {
  EXPECT_REFUSED(refusal(std::make_shared<NumberRows>(
                     four_samples(), std::vector<std::int64_t>{0, 1, 3, 2}, kFlowers)),
                 kLabelOutOfRange, "", "'image2' has label 3");
}

TEST_F(ClassificationSamples, DataWithoutLabelsIsRejected) {
  checkpoint_->classes = {};
  EXPECT_REFUSED(
      refusal(std::make_shared<NumberRows>(four_samples(), std::vector<std::int64_t>{0, 1, 2, 2},
                                           std::vector<std::string>{})),
      kLabelOutOfRange, "", "no labels");
}

TEST_F(ClassificationSamples, FlippingNonImagesIsRejected) {
  EXPECT_REFUSED(refusal(flowers(), R"({"test_time_flip": "horizontal"})"), kOptionConflict,
                 "/test_time_flip", "test_time_flip");
}

TEST_F(ClassificationSamples, NanStopsTheRunAndReportsTheSample) {
  const at::Tensor logits = four_samples();
  logits[1][2] = std::nan("");
  EXPECT_REFUSED(refusal(std::make_shared<NumberRows>(logits, std::vector<std::int64_t>{0, 1, 2, 2},
                                                      kFlowers)),
                 kStageFailed, "", "image1");
  EXPECT_TRUE(std::filesystem::is_empty(context_.node().folder));
}

TEST_F(ClassificationSamples, OutputsBeyondTheClassesAreNamedByNumber) {
  const at::Tensor logits = torch::eye(4).slice(0, 0, 4);
  const auto outputs =
      run(std::make_shared<NumberRows>(logits, std::vector<std::int64_t>{0, 1, 2, 2}, kFlowers));
  EXPECT_THAT(std::static_pointer_cast<const Predictions>(outputs.at("predictions"))->classes,
              ElementsAre("daisy", "rose", "tulip", "output 3"));
}

}  // namespace
}  // namespace stages
