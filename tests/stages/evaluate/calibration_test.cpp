#include "stages/evaluate/classification_curves.h"

#include <gtest/gtest.h>

namespace stages {
namespace {

TEST(Calibration, BinsIncludeTheirUpperEdge) {
  const std::vector<Confidence> predictions = {
      {0.2, true}, {0.21, false}, {0.4, true}, {1, true}, {0, false}};
  const Calibration result = calibration(predictions, 5);
  ASSERT_EQ(result.bins.size(), 5u);
  EXPECT_EQ(result.bins[0].count, 2);
  EXPECT_EQ(result.bins[1].count, 2);
  EXPECT_EQ(result.bins[2].count, 0);
  EXPECT_EQ(result.bins[4].count, 1);
  EXPECT_DOUBLE_EQ(result.bins[1].confidence, 0.305);
  EXPECT_DOUBLE_EQ(result.bins[1].accuracy, 0.5);
  EXPECT_DOUBLE_EQ(result.bins[3].high, 0.8);
  EXPECT_DOUBLE_EQ(result.error, (2 * 0.4 + 2 * 0.195 + 0) / 5);
}

TEST(Calibration, ProbabilityThatRoundsAboveOneIsInTheLastBin) {
  const std::vector<Confidence> predictions = {{1.0000000000000002, true}};
  EXPECT_EQ(calibration(predictions, 15).bins.back().count, 1);
}

TEST(Calibration, ErrorIsZeroIfConfidenceEqualsAccuracy) {
  const std::vector<Confidence> predictions = {
      {0.75, true}, {0.75, true}, {0.75, true}, {0.75, false}};
  EXPECT_DOUBLE_EQ(calibration(predictions, 15).error, 0);
}

}  // namespace
}  // namespace stages
