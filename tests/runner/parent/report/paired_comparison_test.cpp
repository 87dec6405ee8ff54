#include "runner/parent/report/paired_comparison.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

namespace runner {
namespace {

using testing::HasSubstr;

Comparison::Row row(const std::string& title, std::vector<double> episodes,
                    const std::string& drawn = "same") {
  Comparison::Row row{.evaluation = {}};
  row.title = title;
  row.evaluation.episodes = std::move(episodes);
  row.evaluation.drawn = drawn;
  return row;
}

/// 40 episodes, from hard to easy ones; `gain` is added to every second one.
std::vector<double> accuracies(double gain) {
  std::vector<double> all;
  for (int i = 0; i < 40; ++i) all.push_back(0.2 + 0.015 * i + (i % 2 == 0 ? gain : 0));
  return all;
}

Comparison two(Comparison::Row base, Comparison::Row run) {
  Comparison comparison;
  comparison.rows = {std::move(base), std::move(run)};
  return comparison;
}

TEST(PairedComparison, DifferencesArePerEpisode) {
  const auto paired = paired_differences(two(row("a", accuracies(0)), row("b", accuracies(0.05))));
  ASSERT_TRUE(paired);
  const PairedDifference& one = paired->front();
  EXPECT_NEAR(one.mean, 0.025, 1e-12);
  // Half of 40 differences are 0 and half 0.05: their deviation is 0.025 sqrt(40 / 39).
  EXPECT_NEAR(one.high - one.mean, 1.96 * 0.025 / std::sqrt(39.0), 1e-12);
  EXPECT_NEAR(one.p_value, 4.238e-10, 1e-13);
  EXPECT_EQ(one.better, 20);
  EXPECT_EQ(one.worse, 0);
  EXPECT_EQ(one.equal, 20);
  EXPECT_EQ(
      paired_text(*paired),
      "over the same episodes  difference  95% interval            p  better  worse  equal\n"
      "b against a             +2.50%      +1.72% to +3.28%  4.2e-10      20      0     20\n");
}

TEST(PairedComparison, EqualModelsDoNotDiffer) {
  const auto paired = paired_differences(two(row("a", accuracies(0.1)), row("b", accuracies(0.1))));
  ASSERT_TRUE(paired);
  EXPECT_EQ(paired->front().mean, 0);
  EXPECT_EQ(paired->front().p_value, 1);
  EXPECT_EQ(to_json(*paired)[0]["equal"], 40);
}

TEST(PairedComparison, RunsThatCannotBePairedAreReported) {
  const auto refusal = [](Comparison::Row run) {
    const auto paired = paired_differences(two(row("a", accuracies(0)), std::move(run)));
    return paired ? std::string("paired") : paired.errors()[0].message;
  };
  EXPECT_EQ(refusal(row("b", {})), "'b' was not evaluated over episodes, so it cannot be paired");
  EXPECT_EQ(refusal(row("b", {0.5, 0.25})),
            "'b' was evaluated over 2 episodes, too few to test a difference");
  EXPECT_EQ(refusal(row("b", accuracies(0), "other")),
            "'b' was evaluated over different episodes than 'a'");
  EXPECT_EQ(refusal(row("b", std::vector<double>(50, 0.5))),
            "'b' was evaluated over different episodes than 'a'");
}

}  // namespace
}  // namespace runner
