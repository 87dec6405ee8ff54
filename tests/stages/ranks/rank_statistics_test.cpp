#include "stages/ranks/rank_statistics.h"

#include <vector>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "stages/ranks/rank_group.h"
#include "tests/support/distance.h"

namespace stages {
namespace {

/// Returns the mean of each column and the sum of squared distances from it.
at::Tensor moments_of(const at::Tensor& rows) {
  const at::Tensor means = rows.mean(0);
  return torch::stack({means, (rows - means).square().sum(0)});
}

/// Runs three ranks with seven, one and two rows; the last share may not count.
template <typename Work>
void with_rows_of_three(bool last_counts, Work work) {
  torch::manual_seed(4);
  const at::Tensor rows = torch::randn({10, 5}, torch::kDouble) * 3 + 100;
  const std::vector<std::int64_t> places = {0, 7, 8, 10};
  run_as_ranks(3, [&](const runner::RankOfRun& own) {
    const auto index = static_cast<std::size_t>(own.rank);
    const RankStatistics statistics(own, own.rank < 2 || last_counts, /*units=*/10);
    work(statistics, rows.slice(0, places[index], places[index + 1]),
         rows.slice(0, 0, last_counts ? 10 : 8), own.rank);
  });
}

TEST(RankStatistics, CombinesTheMomentsOfAllSharesThatCount) {
  for (const bool last_counts : {true, false}) {
    std::vector<at::Tensor> joined(3);
    with_rows_of_three(last_counts, [&](const RankStatistics& statistics, const at::Tensor& own,
                                        const at::Tensor& all, int rank) {
      const at::Tensor moments = moments_of(own);
      EXPECT_EQ(statistics.join_moments(moments, static_cast<double>(own.size(0))), all.size(0));
      EXPECT_LT(distance(moments[0], moments_of(all)[0]), 1e-15);
      EXPECT_LT(distance(moments[1], moments_of(all)[1]), 1e-13);
      joined[static_cast<std::size_t>(rank)] = moments;
    });
    EXPECT_TRUE(joined[0].equal(joined[1]) && joined[0].equal(joined[2])) << "the same bits";
  }
}

TEST(RankStatistics, GradientSumsOfAnUncountedShareAreZero) {
  with_rows_of_three(/*last_counts=*/false,
                     [&](const RankStatistics& statistics, const at::Tensor& own,
                         const at::Tensor& all, int rank) {
                       const at::Tensor sums = own.sum(0);
                       statistics.sum_slopes(sums);
                       if (rank == 2) EXPECT_TRUE(sums.eq(0).all().item<bool>());
                       else EXPECT_LT(distance(sums, all.sum(0)), 1e-15);
                     });
}

TEST(RankStatistics, DryRunHasNoOtherRank) {
  const RankStatistics statistics({.rank = 0, .size = 4}, /*counts=*/true, /*units=*/8);
  const at::Tensor moments = moments_of(torch::randn({2, 3}, torch::kDouble));
  const at::Tensor before = moments.clone();
  EXPECT_EQ(statistics.join_moments(moments, 2), 8);
  statistics.sum_slopes(moments);
  EXPECT_TRUE(moments.equal(before));
}

TEST(RankStatistics, InnermostScopeOfAThreadApplies) {
  EXPECT_FALSE(current_rank_statistics());
  {
    const ScopedRankStatistics outer({.size = 2}, true, 8);
    EXPECT_EQ(current_rank_statistics()->units(), 8);
    {
      const ScopedRankStatistics inner({.size = 2}, true, 3);
      EXPECT_EQ(current_rank_statistics()->units(), 3);
    }
    EXPECT_EQ(current_rank_statistics()->units(), 8);
  }
  EXPECT_FALSE(current_rank_statistics());
}

}  // namespace
}  // namespace stages
