#include "stages/artifact/batch_shares.h"

#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "stages/ranks/rank_group.h"

namespace stages {
namespace {

using RowPairs = std::vector<std::pair<std::int64_t, std::int64_t>>;

RowPairs pairs_of(const std::vector<RowRange>& shares) {
  RowPairs pairs;
  for (const RowRange& share : shares) pairs.emplace_back(share.begin, share.end);
  return pairs;
}

TEST(BatchShares, OneRankHasAllRows) {
  EXPECT_EQ(pairs_of(shares_of_batches(10, 4, nullptr)), (RowPairs{{0, 10}}));
}

TEST(BatchShares, BatchesAreNotDivided) {
  run_as_ranks(2, [](const runner::RankOfRun& own) {
    RankGroup& group = *group_of(own);
    EXPECT_EQ(pairs_of(shares_of_batches(10, 4, &group)), (RowPairs{{0, 8}, {8, 10}}));
    const RowRange share = own_share_of_batches(10, 4, &group);
    EXPECT_EQ(share.begin, own.rank == 0 ? 0 : 8);
    EXPECT_EQ(order_of(share).size(), own.rank == 0 ? 8 : 2);
    EXPECT_EQ(order_of(share)[1], share.begin + 1);
  });
}

TEST(BatchShares, RankWithoutABatchHasNoRows) {
  run_as_ranks(3, [](const runner::RankOfRun& own) {
    const RowPairs pairs = pairs_of(shares_of_batches(6, 4, group_of(own)));
    EXPECT_EQ(RowPairs(pairs.begin(), pairs.begin() + 2), (RowPairs{{0, 4}, {4, 6}}));
    EXPECT_EQ(pairs[2].first, pairs[2].second);
  });
}

}  // namespace
}  // namespace stages
