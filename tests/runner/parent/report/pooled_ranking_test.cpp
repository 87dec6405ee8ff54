#include "runner/parent/report/pooled_ranking.h"

#include <gmock/gmock.h>

namespace runner {
namespace {

using testing::Optional;

TEST(PooledRanking, AreaIsTheShareOfOrderedPairs) {
  const PooledRanking ranking({{0.9, true}, {0.1, false}, {0.5, false}, {0.4, true}});
  EXPECT_THAT(ranking.area({1, 1, 1, 1}), Optional(0.75));
  EXPECT_THAT(ranking.area({2, 1, 1, 0}), Optional(1));
  EXPECT_THAT(ranking.area({0, 1, 3, 1}), Optional(0.25));
}

TEST(PooledRanking, EqualScoresCountHalf) {
  EXPECT_THAT(PooledRanking({{0.5, true}, {0.5, false}}).area({1, 1}), Optional(0.5));
}

TEST(PooledRanking, ResampleWithOneClassHasNoArea) {
  EXPECT_EQ(PooledRanking({{0.5, true}, {0.5, false}}).area({2, 0}), std::nullopt);
}

}  // namespace
}  // namespace runner
