#include "stages/evaluate/roc_curve.h"

#include <cmath>
#include <fstream>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/support/shared_data.h"

namespace stages {
namespace {

using testing::ElementsAre;

TEST(RocCurve, TakesSamplesOfOneScoreTogether) {
  const auto curve = roc_curve({{0.9, true}, {0.5, true}, {0.5, false}, {0.1, false}});
  ASSERT_TRUE(curve);
  EXPECT_THAT(curve->false_positives, ElementsAre(0, 0, 0.5, 1));
  EXPECT_THAT(curve->true_positives, ElementsAre(0, 0.5, 1, 1));
  EXPECT_DOUBLE_EQ(curve->area, 0.875);
}

TEST(RocCurve, OrderOfTheSamplesDoesNotMatter) {
  const auto one = roc_curve({{1, true}, {2, false}, {3, true}}), other = roc_curve({{3, true}, {1, true}, {2, false}});
  EXPECT_EQ(one->true_positives, other->true_positives);
  EXPECT_DOUBLE_EQ(one->area, 0.5);
}

TEST(RocCurve, IsThereOnlyWithBothKindsOfSamples) {
  EXPECT_FALSE(roc_curve({{1, true}, {2, true}}));
  EXPECT_FALSE(roc_curve({{1, false}}));
  EXPECT_FALSE(roc_curve({}));
}

TEST(RocCurve, BetweenPointsItIsStraightAndTheHighestCounts) {
  const auto curve = roc_curve({{0.9, true}, {0.5, true}, {0.5, false}, {0.1, false}});
  EXPECT_DOUBLE_EQ(true_positives_at(*curve, 0), 0.5);
  EXPECT_DOUBLE_EQ(true_positives_at(*curve, 0.25), 0.75);
  EXPECT_DOUBLE_EQ(true_positives_at(*curve, 1), 1);
}

TEST(RocCurve, ThinnedItKeepsItsEndsAndArea) {
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

TEST(RocCurve, AgreesWithScikitLearn) {
  const auto path = shared_data("cases/parity/losses/binary_scores.json");
  RETORT_NEEDS_SHARED(path);
  std::ifstream file(path);
  const auto recorded = nlohmann::json::parse(file);
  std::vector<Detected> samples;
  for (std::size_t i = 0; i < recorded.at("score").size(); ++i) {
    samples.push_back({recorded.at("score").at(i), recorded.at("truth").at(i) == 1});
  }
  const auto curve = roc_curve(samples);
  ASSERT_TRUE(curve);
  EXPECT_NEAR(curve->area, recorded.at("auc").get<double>(), 1e-12);
  // scikit-learn may leave out points on a straight line, so its points are looked for on the curve.
  const auto rates = recorded.at("roc").at("fpr"), hits = recorded.at("roc").at("tpr");
  ASSERT_GT(rates.size(), 10u);
  for (std::size_t i = 0; i < rates.size(); ++i) {
    bool is_there = false;
    for (std::size_t j = 0; j < curve->true_positives.size(); ++j) {
      is_there |= std::abs(curve->false_positives[j] - rates.at(i).get<double>()) < 1e-12 &&
                  std::abs(curve->true_positives[j] - hits.at(i).get<double>()) < 1e-12;
    }
    EXPECT_TRUE(is_there) << rates.at(i) << " " << hits.at(i);
  }
}

}  // namespace
}  // namespace stages
