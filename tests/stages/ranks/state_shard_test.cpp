#include "stages/ranks/state_shard.h"

#include <algorithm>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stages {
namespace {

using testing::Each;
using testing::ElementsAre;

TEST(StateShard, LargestParametersAreAssignedFirstAndRankZeroHasTheMost) {
  EXPECT_THAT(owners_of({10, 70, 20, 30}, 2), ElementsAre(1, 0, 1, 1));
  EXPECT_THAT(owners_of({10, 60, 40, 30}, 2), ElementsAre(0, 0, 1, 1)) << "70 bytes each";
  EXPECT_THAT(owners_of({5, 5, 5}, 1), Each(0));
  EXPECT_THAT(owners_of({}, 3), testing::IsEmpty());
}

TEST(StateShard, RanksWithoutParametersComeLast) {
  EXPECT_THAT(owners_of({8, 9}, 4), ElementsAre(1, 0));
}

// By Graham's bound for this rule, no rank has more than 4/3 of the optimum, which is at least the
// largest parameter and the mean.
TEST(StateShard, ShardsHaveSimilarSizes) {
  std::vector<std::int64_t> bytes;
  for (std::int64_t i = 1; i < 200; ++i) bytes.push_back(i * i % 97 + i);
  const std::int64_t all = std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
  for (const int ranks : {2, 3, 7, 64}) {
    std::vector<std::int64_t> sums(static_cast<std::size_t>(ranks), 0);
    const std::vector<int> owners = owners_of(bytes, ranks);
    for (std::size_t i = 0; i < bytes.size(); ++i)
      sums[static_cast<std::size_t>(owners[i])] += bytes[i];
    EXPECT_TRUE(std::ranges::is_sorted(sums, std::ranges::greater())) << ranks;
    const std::int64_t least = std::max(all / ranks, *std::ranges::max_element(bytes));
    EXPECT_LE(3 * sums.front(), 4 * (least + 1)) << ranks;
  }
}

TEST(StateShard, SingleRankHasEverything) {
  EXPECT_TRUE(StateShard{}.is_whole());
  EXPECT_TRUE(StateShard{}.keeps(7));
  const StateShard second{.rank = 1, .owners = {0, 1}};
  EXPECT_FALSE(second.is_whole());
  EXPECT_FALSE(second.keeps(0));
  EXPECT_TRUE(second.keeps(1));
}

}  // namespace
}  // namespace stages
