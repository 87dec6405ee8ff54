#include "stages/retina/train_binary.h"

#include <vector>

#include <gtest/gtest.h>

namespace stages {
namespace {

TEST(Ranking, EqualScoresCountHalf) {
  std::vector<RankedSample> samples = {{0.9, true}, {0.5, true}, {0.5, false}, {0.1, false}};
  EXPECT_DOUBLE_EQ(*ranked_area(samples), 3.5 / 4);
  samples = {{1, false}, {2, true}};
  EXPECT_DOUBLE_EQ(*ranked_area(samples), 1);
  samples = {{2, false}, {1, true}};
  EXPECT_DOUBLE_EQ(*ranked_area(samples), 0);
}

TEST(Ranking, OneClassCannotBeRanked) {
  std::vector<RankedSample> samples = {{1, true}, {2, true}};
  EXPECT_FALSE(ranked_area(samples));
  EXPECT_FALSE(ranked_area({}));
}

}  // namespace
}  // namespace stages
