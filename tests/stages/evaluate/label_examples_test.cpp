#include "stages/evaluate/label_examples.h"

#include <cmath>

#include <gmock/gmock.h>
#include <torch/types.h>

#include "tests/support/shown_dataset.h"
#include "tests/support/temporary_folder.h"

namespace stages {
namespace {

using testing::ElementsAre;

class LabelExamples : public testing::Test {
 protected:
  LabelExamples() {
    tested_.samples.names = {"0", "1", "2", "4", "5"};
    tested_.samples.logits = torch::tensor(
        {{3.0, -3.0}, {-4.0, 4.0}, {1.0, 1.0}, {-6.0, -6.0}, {-9.0, 0.0}}, at::kFloat);
    tested_.samples.labels = torch::tensor({{1, 0}, {1, 0}, {1, 1}, {0, 0}, {0, 0}}, at::kByte);
  }

  const TemporaryFolder folder_;
  const ShownDataset dataset_{};
  LabeledSamples tested_{.labels = {"red", "blue"}, .thresholds = {0.5, 0.5}};
};

TEST_F(LabelExamples, AreThoseWithTheLargestAndTheSmallestLoss) {
  write_label_examples(tested_, dataset_, 2, folder_.path());
  const auto examples = written_examples(folder_.path());
  EXPECT_THAT(names_of_group(examples, "samples with the largest loss"), ElementsAre("1", "5"));
  EXPECT_THAT(names_of_group(examples, "samples with the smallest loss"), ElementsAre("4", "0"));
}

TEST_F(LabelExamples, ShowLabelsPredictionAndLoss) {
  write_label_examples(tested_, dataset_, 1, folder_.path());
  const auto first = written_examples(folder_.path())[0];
  EXPECT_EQ(first["labels"], nlohmann::json::parse(R"(["red"])"));
  EXPECT_EQ(first["predicted"], nlohmann::json::parse(R"(["blue"])"));
  EXPECT_NEAR(first["loss"].get<double>(), 4 + std::log1p(std::exp(-4.0)), 1e-12);
}

TEST_F(LabelExamples, LabelsMissingFromTheTestDataDoNotCount) {
  tested_.present = {true, false};
  write_label_examples(tested_, dataset_, 1, folder_.path());
  const auto examples = written_examples(folder_.path());
  EXPECT_THAT(names_of_group(examples, "samples with the smallest loss"), ElementsAre("5"));
  EXPECT_TRUE(examples[0]["predicted"].empty());
}

}  // namespace
}  // namespace stages
