#include "stages/ranks/gathered_rows.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "stages/ranks/rank_group.h"

namespace stages {
namespace {

TEST(GatheredRows, AreInTheOrderOfTheRanks) {
  run_as_ranks(3, [](const runner::RankOfRun& own) {
    RankGroup& group = *group_of(own);
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kLong}) {
      const at::Tensor rows = gathered_rows(torch::full({2 - own.rank, 2}, own.rank, type), group);
      EXPECT_TRUE(rows.equal(torch::tensor({{0, 0}, {0, 0}, {1, 1}}).to(type)));
    }
    const at::Tensor numbers = gathered_rows(torch::full({1}, own.rank, at::kLong), group);
    EXPECT_TRUE(numbers.equal(torch::tensor({0, 1, 2})));
  });
}

TEST(GatheredRows, RankWithoutRowsLearnsTheirShape) {
  run_as_ranks(3, [](const runner::RankOfRun& own) {
    const bool has_rows = own.rank == 1;
    const at::Tensor rows =
        gathered_rows(has_rows ? torch::ones({4, 3, 2}) : at::Tensor(), *group_of(own));
    EXPECT_TRUE(rows.equal(torch::ones({4, 3, 2})));
  });
}

TEST(GatheredRows, AreUndefinedIfNoRankHasAny) {
  run_as_ranks(2, [](const runner::RankOfRun& own) {
    EXPECT_FALSE(gathered_rows({}, *group_of(own)).defined());
  });
}

}  // namespace
}  // namespace stages
