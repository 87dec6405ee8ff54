#include "stages/retina/pair_table.h"

#include <gmock/gmock.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "tests/support/tiny_dataset.h"

namespace stages {
namespace {

/// Three grades; their networks in the order 0-1, 0-2, 1-2.
Ensemble three_grades() {
  Ensemble ensemble{.classes = {"a", "b", "c"}, .sets = 1};
  for (const auto& [first, second] : {std::pair(0, 1), std::pair(0, 2), std::pair(1, 2)}) {
    auto checkpoint = std::make_shared<Checkpoint>();
    checkpoint->validation = {{"accuracy", 0.5}};
    checkpoint->epoch = 4;
    ensemble.members.push_back({checkpoint, first, second});
  }
  return ensemble;
}

PairTable some_table() {
  return {.names = {"one.png", "two, or three.png", "four.png"},
          .labels = {0, 1, 2},
          .logits = {-2, -1, 0.5, 3, 0, -4, 1, 2, 0.1}};
}

TEST(PairTable, NetworksAreMeasuredOnTheirOwnClasses) {
  const PairQuality quality =
      pair_quality(some_table(), three_grades(), 1, {});  // a and c: -1 and 2
  EXPECT_EQ(quality.samples, 2);
  EXPECT_EQ(quality.accuracy, 1);
  EXPECT_EQ(quality.area, 1);
  const PairQuality last = pair_quality(some_table(), three_grades(), 2, {.threshold = 0.6});
  EXPECT_EQ(last.accuracy, 0.5);
  PairTable without = some_table();
  without.labels = {1, 1, 1};
  EXPECT_FALSE(pair_quality(without, three_grades(), 1, {}).accuracy);
  EXPECT_FALSE(pair_quality(without, three_grades(), 0, {}).area);
}

TEST(PairTable, LogitsKeepTheirBits) {
  PairTable table = some_table();
  table.logits[0] = 0.1 + 0.2;
  EXPECT_EQ(pair_logits_csv(table, three_grades()),
            "name,grade,a-b,a-c,b-c\n"
            "one.png,a,0.30000000000000004,-1,0.5\n"
            "\"two, or three.png\",b,3,0,-4\n"
            "four.png,c,1,2,0.1\n");
}

TEST(PairTable, SamplesWithASmallMarginGetNoPrediction) {
  const Decisions all = decide(VoteRule::kMajority, some_table(), three_grades(), {}, std::nullopt);
  EXPECT_EQ(all.abstained, 0);
  EXPECT_EQ(all.tied, 0);
  PairTable table = some_table();
  table.logits = {-2, -1, 0.5, 3, 0, -4, -1, 2, -0.1};  // the last: one vote each
  const Decisions some = decide(VoteRule::kMajority, table, three_grades(), {}, 0.1);
  EXPECT_EQ(some.tied, 1);
  EXPECT_EQ(some.abstained, 1);
  EXPECT_THAT(some.abstains, testing::ElementsAre(false, false, true));
  EXPECT_EQ(some.votes[2].winner, 2);
  EXPECT_THAT(votes_csv(table, three_grades(), some, {}),
              testing::StartsWith(
                  "name,grade,prediction,tied,margin,score_a,score_b,score_c,p_a-b,p_a-c,p_b-c\n"
                  "one.png,a,a,false,0.3333333333333333,2,0,1,"));
  EXPECT_THAT(votes_csv(table, three_grades(), some, {}),
              testing::HasSubstr("\nfour.png,c,,true,0,1,1,1,"));
}

TEST(PairTable, RecordListsEveryPair) {
  const nlohmann::json pairs = pairs_json(some_table(), three_grades(), {});
  ASSERT_EQ(pairs.size(), 3u);
  EXPECT_EQ(pairs[1], nlohmann::json::parse(
                          R"({"pair": "a-c", "first": "a", "second": "c", "set": 0, "samples": 2,
      "accuracy": 1.0, "auc": 1.0, "validation_accuracy": 0.5, "epoch": 4})"));
}

}  // namespace
}  // namespace stages
