#include "stages/evaluate/suspected_labels.h"

#include <gmock/gmock.h>
#include <torch/types.h>

namespace stages {
namespace {

using testing::SizeIs;

at::Tensor logits_of(const std::vector<std::vector<double>>& probabilities) {
  std::vector<at::Tensor> rows;
  for (const auto& row : probabilities) rows.push_back(torch::tensor(row, at::kDouble).log());
  return torch::stack(rows);
}

// The thresholds are 0.6 for the first class, the mean of 0.9, 0.8 and 0.1, and 0.7 for the second,
// the mean of 0.9 and 0.5.
const at::Tensor kLogits = logits_of({{0.9, 0.1}, {0.8, 0.2}, {0.1, 0.9}, {0.1, 0.9}, {0.5, 0.5}});
const at::Tensor kLabels = torch::tensor({0, 0, 0, 1, 1});

TEST(SuspectedLabels, AreConfidentlyPredictedAsAnotherClass) {
  const auto suspected = suspected_labels(kLogits, kLabels);
  ASSERT_THAT(suspected, SizeIs(1));
  EXPECT_EQ(suspected[0].row, 2);
  EXPECT_EQ(suspected[0].suggested, 1);
  EXPECT_NEAR(suspected[0].label_probability, 0.1, 1e-12);
  EXPECT_NEAR(suspected[0].suggested_probability, 0.9, 1e-12);
}

TEST(SuspectedLabels, ClearestCaseIsFirst) {
  const auto suspected =
      suspected_labels(logits_of({{0.9, 0.1}, {0.2, 0.8}, {0.1, 0.9}, {0.3, 0.7}, {0.45, 0.55}}),
                       torch::tensor({0, 0, 0, 1, 1}));
  ASSERT_THAT(suspected, SizeIs(2));
  EXPECT_EQ(suspected[0].row, 2);
  EXPECT_EQ(suspected[1].row, 1);
}

TEST(SuspectedLabels, ClassWithoutSamplesIsNeverSuggested) {
  EXPECT_THAT(suspected_labels(logits_of({{0.1, 0.9}, {0.2, 0.8}}), torch::tensor({0, 0})),
              SizeIs(0));
}

TEST(SuspectedLabels, AreListedInATable) {
  const ClassifiedSamples samples{{"a.jpg", "b.jpg", "c.jpg", "d.jpg", "e.jpg"}, kLogits, kLabels};
  EXPECT_THAT(suspected_labels_csv(suspected_labels(kLogits, kLabels), samples, {"cat", "dog"}),
              testing::MatchesRegex(
                  "name,label,suggested,label_probability,suggested_probability\nc.jpg,cat,dog,"
                  "0\\.[01][0-9]*,0\\.[89][0-9]*\n"));
}

}  // namespace
}  // namespace stages
