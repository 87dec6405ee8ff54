#include "stages/worker/rank_speed.h"

#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "stages/ranks/messages.h"

namespace stages {
namespace {

TEST(RankSpeed, MeasuresMessagesOfEverySize) {
  for (const int ranks : {2, 3}) {
    const auto found = measure_sums(ranks);
    ASSERT_EQ(found.size(), 3);
    EXPECT_EQ(found.front().bytes, 8);
    EXPECT_EQ(found.back().bytes, kMessageBytes);
    for (const SumSpeed& sum : found) EXPECT_GT(sum.seconds, 0) << sum.bytes;
    EXPECT_GT(found.back().seconds, found.front().seconds) << "the times match the sizes";
  }
}

TEST(RankSpeed, AnswersTheRequest) {
  const auto answer = answer_check_ranks({{"ranks", 2}}, {});
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->at("ranks"), 2);
  EXPECT_EQ(answer->at("sums").size(), 3);
  EXPECT_THROW(static_cast<void>(answer_check_ranks({{"ranks", 1}}, {})), std::runtime_error);
  EXPECT_THROW(static_cast<void>(answer_check_ranks({{"ranks", 65}}, {})), std::runtime_error);
}

}  // namespace
}  // namespace stages
