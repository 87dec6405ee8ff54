#include "stages/evaluate/classification_curves.h"

#include <cmath>

#include <gmock/gmock.h>

namespace stages {
namespace {

using testing::ElementsAre;

TEST(RocCurve, SamplesOfEqualScoreAreOneStep) {
  const auto curve = roc_curve({{0.9, true}, {0.5, true}, {0.5, false}, {0.1, false}});
  ASSERT_TRUE(curve);
  EXPECT_THAT(curve->false_positives, ElementsAre(0, 0, 0.5, 1));
  EXPECT_THAT(curve->true_positives, ElementsAre(0, 0.5, 1, 1));
  EXPECT_DOUBLE_EQ(curve->area, 0.875);
}

TEST(RocCurve, OrderOfTheSamplesDoesNotMatter) {
  const auto one = roc_curve({{1, true}, {2, false}, {3, true}}),
             other = roc_curve({{3, true}, {1, true}, {2, false}});
  EXPECT_EQ(one->true_positives, other->true_positives);
  EXPECT_DOUBLE_EQ(one->area, 0.5);
}

TEST(RocCurve, NeedsPositivesAndNegatives) {
  EXPECT_FALSE(roc_curve({{1, true}, {2, true}}));
  EXPECT_FALSE(roc_curve({{1, false}}));
  EXPECT_FALSE(roc_curve({}));
}

TEST(RocCurve, InterpolatesLinearlyAndUsesTheHighestPoint) {
  const auto curve = roc_curve({{0.9, true}, {0.5, true}, {0.5, false}, {0.1, false}});
  EXPECT_DOUBLE_EQ(true_positives_at(*curve, 0), 0.5);
  EXPECT_DOUBLE_EQ(true_positives_at(*curve, 0.25), 0.75);
  EXPECT_DOUBLE_EQ(true_positives_at(*curve, 1), 1);
}

TEST(RocCurve, ThinningKeepsEndsAndArea) {
  std::vector<Detected> samples;
  for (int i = 0; i < 1000; ++i) samples.push_back({std::sin(i), i % 3 == 0});
  const auto curve = roc_curve(samples);
  const RocCurve few = thinned(*curve, 11);
  EXPECT_EQ(few.true_positives.size(), 11u);
  EXPECT_EQ(few.false_positives.front(), 0);
  EXPECT_EQ(few.true_positives.back(), 1);
  EXPECT_EQ(few.area, curve->area);
  EXPECT_EQ(thinned(*curve, 5000).true_positives.size(), curve->true_positives.size());
}

}  // namespace
}  // namespace stages
