#include "stages/evaluate/target_examples.h"

#include <gmock/gmock.h>
#include <torch/types.h>

#include "tests/support/shown_dataset.h"
#include "tests/support/temporary_folder.h"

namespace stages {
namespace {

using testing::ElementsAre;

class TargetExamples : public testing::Test {
 protected:
  /// The errors of age and weight are 1 and 0, 0 and 5, 3 and 0, 0 and 0.
  const std::vector<std::string> names_ = {"0", "1", "2", "4"};
  const PredictedTargets tested_{
      .names = {"age", "weight"},
      .predictions =
          torch::tensor({{21.0, 50.0}, {30.0, 65.0}, {37.0, 70.0}, {50.0, 80.0}}, at::kDouble),
      .targets =
          torch::tensor({{20.0, 50.0}, {30.0, 60.0}, {40.0, 70.0}, {50.0, 80.0}}, at::kDouble)};
  const TemporaryFolder folder_;
  const ShownDataset dataset_{};
};

TEST_F(TargetExamples, AreThoseWithTheLargestAndTheSmallestErrors) {
  write_target_examples(names_, tested_, {}, dataset_, 2, folder_.path());
  const auto examples = written_examples(folder_.path());
  EXPECT_THAT(names_of_group(examples, "samples with the largest errors"), ElementsAre("1", "2"));
  EXPECT_THAT(names_of_group(examples, "samples with the smallest errors"), ElementsAre("4", "0"));
}

TEST_F(TargetExamples, ErrorsInDifferentUnitsAreScaled) {
  write_target_examples(names_, tested_, {1, 10}, dataset_, 1, folder_.path());
  EXPECT_THAT(names_of_group(written_examples(folder_.path()), "samples with the largest errors"),
              ElementsAre("2"))
      << "an error of 5 is half a deviation";
}

TEST_F(TargetExamples, ShowTargetsAndPredictions) {
  write_target_examples(names_, tested_, {}, dataset_, 1, folder_.path());
  EXPECT_EQ(written_examples(folder_.path())[0]["targets"],
            nlohmann::json::parse(R"([{"target": "age", "value": 30, "prediction": 30},
                                      {"target": "weight", "value": 60, "prediction": 65}])"));
}

}  // namespace
}  // namespace stages
