#include "stages/artifact/label_ranking.h"

#include <vector>

#include <gmock/gmock.h>

namespace stages {
namespace {

using testing::Optional;

TEST(AveragePrecision, EqualScoresAreAcceptedTogether) {
  std::vector<ScoredLabel> samples = {{2, false}, {3, true}, {2, true}, {1, true}};
  // The precision is 1 at recall 1/3, 2/3 at recall 2/3, and 3/4 at recall 1.
  EXPECT_THAT(average_precision(samples), Optional(testing::DoubleEq((1 + 2.0 / 3 + 0.75) / 3)));
}

TEST(AveragePrecision, IsUnknownWithoutPositives) {
  std::vector<ScoredLabel> samples = {{2, false}, {3, false}};
  EXPECT_EQ(average_precision(samples), std::nullopt);
  EXPECT_EQ(best_threshold(samples), std::nullopt);
}

TEST(PrecisionRecall, HasTheHighestPrecisionAtEachRecall) {
  std::vector<ScoredLabel> samples = {{0.5, true},  {0.9, true}, {0.5, false},
                                      {0.7, false}, {0.6, true}, {0.1, false}};
  // The thresholds 0.7 and 0.1 accept no further positive sample, and 0.5 accepts two samples at
  // once.
  const auto curve = precision_recall_curve(samples);
  ASSERT_TRUE(curve);
  EXPECT_THAT(curve->recall, testing::ElementsAre(0, 1.0 / 3, 2.0 / 3, 1));
  EXPECT_THAT(curve->precision, testing::ElementsAre(1, 1, 2.0 / 3, 3.0 / 5));
}

TEST(PrecisionRecall, AveragePrecisionIsTheAreaBelowItsSteps) {
  std::vector<ScoredLabel> samples;
  for (int i = 0; i < 50; ++i) samples.push_back({(i * 7 % 13) / 13.0, i % 3 == 0});
  const auto curve = precision_recall_curve(samples);
  double area = 0;
  for (std::size_t i = 1; i < curve->recall.size(); ++i)
    area += (curve->recall[i] - curve->recall[i - 1]) * curve->precision[i];
  EXPECT_NEAR(area, *average_precision(samples), 1e-12);
}

TEST(PrecisionRecall, IsUnknownWithoutPositives) {
  std::vector<ScoredLabel> samples = {{2, false}, {3, false}};
  EXPECT_FALSE(precision_recall_curve(samples));
}

TEST(BestThreshold, IsTheScoreWithTheHighestF1) {
  std::vector<ScoredLabel> samples = {{0.9, true}, {0.8, false}, {0.7, true}, {0.1, false}};
  EXPECT_THAT(best_threshold(samples), Optional(0.7));  // F1 of 4 / 5
}

TEST(BestThreshold, IsTheLowestOfEquallyGoodThresholds) {
  // F1 is 2 / 3 at the threshold 0.9, and 4 / 6 at 0.2, which is equal.
  std::vector<ScoredLabel> samples = {{0.9, true}, {0.5, false}, {0.4, false}, {0.2, true}};
  EXPECT_THAT(best_threshold(samples), Optional(0.2));
}

}  // namespace
}  // namespace stages
