#include "stages/ranks/rank_group.h"

#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "runner/shared/error/stage_error.h"
#include "stages/machine/device.h"

namespace stages {
namespace {

TEST(RankGroup, EveryRankGetsTheSum) {
  for (const int size : {1, 2, 3, 4}) {
    run_as_ranks(size, [&](const runner::RankOfRun& own) {
      RankGroup& group = dynamic_cast<RankGroup&>(*own.peers);
      at::Tensor tensor = torch::full({3}, own.rank + 1, torch::kDouble);
      group.sum(tensor);
      EXPECT_TRUE(tensor.equal(torch::full({3}, size * (size + 1) / 2, torch::kDouble)));
      EXPECT_EQ(group.largest(own.rank), size - 1);
      EXPECT_EQ(group.least(own.rank), 0);
      EXPECT_EQ(group.text_of_first("of " + std::to_string(own.rank)), "of 0");
      EXPECT_EQ(group.text_of_first("again"), "again");
    });
  }
}

TEST(RankGroup, BroadcastReachesAllRanks) {
  run_as_ranks(3, [](const runner::RankOfRun& own) {
    RankGroup& group = dynamic_cast<RankGroup&>(*own.peers);
    for (const auto& [type, size] : {std::pair{at::kFloat, std::int64_t{1 << 20}},
                                     {at::kLong, std::int64_t{1}},
                                     {at::kByte, std::int64_t{0}}}) {
      const at::Tensor tensor = torch::full({size}, own.rank, type);
      group.broadcast(tensor, 1);
      EXPECT_TRUE(tensor.equal(torch::full({size}, 1, type)));
      if (own.rank == 2) group.send(torch::full({size}, 7, type), 0);
      if (own.rank == 0) {
        group.receive(tensor, 2);
        EXPECT_TRUE(tensor.equal(torch::full({size}, 7, type)));
      }
    }
  });
}

// If a group kept its arguments, memory that a step frees might still be in use when the next
// tensor is allocated.
TEST(RankGroup, DoesNotKeepItsArguments) {
  run_as_ranks(3, [](const runner::RankOfRun& own) {
    RankGroup& group = dynamic_cast<RankGroup&>(*own.peers);
    const at::Tensor tensor = torch::zeros({1 << 16});
    for (int i = 0; i < 50; ++i) {
      group.sum(tensor);
      EXPECT_EQ(tensor.storage().use_count(), 1);
      group.broadcast(tensor, i % 3);
      EXPECT_EQ(tensor.storage().use_count(), 1);
      if (own.rank == 1) group.send(tensor, 0);
      if (own.rank == 0) group.receive(tensor, 1);
      EXPECT_EQ(tensor.storage().use_count(), 1);
      group.gather(tensor);
      EXPECT_EQ(tensor.storage().use_count(), 1);
    }
  });
}

TEST(RankGroup, RowsAreGatheredInRankOrder) {
  run_as_ranks(3, [](const runner::RankOfRun& own) {
    RankGroup& group = dynamic_cast<RankGroup&>(*own.peers);
    const auto gathered = group.gather(torch::full({2 - own.rank, 2}, own.rank, torch::kFloat));
    EXPECT_TRUE(gathered.rows.equal(torch::tensor({{0.F, 0.F}, {0.F, 0.F}, {1.F, 1.F}})))
        << "the third rank has no rows";
    EXPECT_EQ(gathered.own, own.rank == 0 ? 0 : own.rank == 1 ? 2 : 3);
  });
}

TEST(RankGroup, OutOfMemoryOnOneRankReachesAll) {
  run_as_ranks(3, [](const runner::RankOfRun& own) {
    RankGroup& group = dynamic_cast<RankGroup&>(*own.peers);
    bool has_run = false;
    try {
      group.together([&] {
        has_run = true;
        TORCH_CHECK_WITH(OutOfMemoryError, own.rank != 1, "no room");
      });
      ADD_FAILURE() << own.rank;
    } catch (const std::exception& error) {
      EXPECT_TRUE(is_out_of_memory(error)) << error.what();
    }
    EXPECT_TRUE(has_run);
    group.together([] {});
  });
}

TEST(RankGroup, OutOfMemoryBeforeASumReachesAll) {
  for (const int sums_before : {0, 1, 2}) {
    run_as_ranks(3, [&](const runner::RankOfRun& own) {
      RankGroup& group = dynamic_cast<RankGroup&>(*own.peers);
      for (const bool fails : {true, false}) {
        int sums = 0;
        const auto work = [&] {
          for (; sums < 2; ++sums) {
            TORCH_CHECK_WITH(OutOfMemoryError, !fails || own.rank != 1 || sums < sums_before,
                             "no room");
            at::Tensor number = torch::full({1}, own.rank + 1, torch::kDouble);
            group.sum_in_work(number);
            EXPECT_EQ(number.item<double>(), 6);
          }
          TORCH_CHECK_WITH(OutOfMemoryError, !fails || own.rank != 1, "no room");
        };
        if (!fails) {
          group.together(work);
          EXPECT_EQ(sums, 2) << "the work is repeated";
          continue;
        }
        try {
          group.together(work);
          ADD_FAILURE() << own.rank;
        } catch (const std::exception& error) {
          EXPECT_TRUE(is_out_of_memory(error)) << error.what();
        }
        EXPECT_EQ(sums, sums_before);
      }
    });
  }
}

TEST(RankGroup, QuestionsAreAnsweredAtAnyPointWhereOtherRanksWait) {
  run_as_ranks(3, [](const runner::RankOfRun& own) {
    RankGroup& group = dynamic_cast<RankGroup&>(*own.peers);
    std::vector<std::vector<std::int64_t>> seen;
    group.answer_with([&seen](const std::vector<std::int64_t>& asked) { seen.push_back(asked); });
    const at::Tensor sum = torch::ones({1});
    group.together([&] {
      if (own.rank == 1) group.ask_in_work(4);
      group.sum_in_work(sum);
      if (own.rank != 1) group.ask_in_work(5 + own.rank);
      EXPECT_EQ(group.largest_in_work(own.rank), 2);
      if (own.rank == 0) group.ask_in_work(8);
    });
    if (own.rank == 2) group.ask_in_work(9);
    group.answer_rest();
    EXPECT_EQ(sum.item<float>(), 3);
    EXPECT_EQ(seen,
              (std::vector<std::vector<std::int64_t>>{{0, 4, 0}, {5, 0, 7}, {8, 0, 0}, {0, 0, 9}}));
    EXPECT_EQ(group.largest(own.rank), 2) << "nothing is left over";
  });
}

TEST(RankGroup, QuestionOfOneRankEndsIfAnotherIsOutOfMemory) {
  run_as_ranks(2, [](const runner::RankOfRun& own) {
    RankGroup& group = dynamic_cast<RankGroup&>(*own.peers);
    int answers = 0;
    group.answer_with([&answers](const std::vector<std::int64_t>&) { ++answers; });
    const auto work = [&](bool fails) {
      group.together([&] {
        TORCH_CHECK_WITH(OutOfMemoryError, own.rank != 0 || !fails, "no room");
        group.ask_in_work(1);
      });
    };
    EXPECT_THROW(work(true), c10::OutOfMemoryError);
    EXPECT_EQ(answers, 0);
    work(false);
    EXPECT_EQ(answers, 1);
  });
}

TEST(RankGroup, ExceptionOnOneRankEndsTheOthers) {
  int lost = 0;
  std::mutex counting;
  try {
    run_as_ranks(3, [&](const runner::RankOfRun& own) {
      RankGroup& group = dynamic_cast<RankGroup&>(*own.peers);
      group.wait_for_all();
      if (own.rank == 1) throw std::runtime_error("its own reason");
      try {
        group.wait_for_all();
        group.wait_for_all();
      } catch (const runner::StageError& error) {
        EXPECT_EQ(error.code, runner::ErrorCode::kRankLost);
        const std::lock_guard lock(counting);
        ++lost;
        throw;
      }
    });
    ADD_FAILURE() << "the error is thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "its own reason");
  }
  EXPECT_EQ(lost, 2);
}

TEST(Share, DividesABatchAmongRanks) {
  for (const std::int64_t in_group : {1, 2, 5}) {
    for (std::int64_t units = in_group; units <= 23; ++units) {
      for (int ranks = 1; ranks <= 6; ++ranks) {
        std::int64_t end = 0, most = 0, least = units;
        for (int rank = 0; rank < ranks; ++rank) {
          const Share share = share_of(units, in_group, rank, ranks);
          ASSERT_GT(share.units(), 0);
          ASSERT_EQ(share.begin % in_group, 0) << "groups are not split";
          if (!share.counts) continue;
          ASSERT_EQ(share.begin, end) << units << " " << in_group << " " << rank << "/" << ranks;
          end = share.end;
          if (end == units && units % in_group != 0) continue;
          most = std::max(most, share.units());
          least = std::min(least, share.units());
        }
        ASSERT_EQ(end, units);
        ASSERT_LE(most - std::min(least, most), in_group);
      }
    }
  }
}

TEST(Share, FirstRankHasTheLargestShare) {
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_EQ(share_of(10, 1, rank, 4).units(), rank < 2 ? 3 : 2);
  EXPECT_FALSE(share_of(2, 1, 3, 4).counts);
  EXPECT_TRUE(share_of(2, 1, 1, 4).counts);
}

}  // namespace
}  // namespace stages
