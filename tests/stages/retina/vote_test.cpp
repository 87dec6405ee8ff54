#include "stages/retina/vote.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>

namespace stages {
namespace {

using testing::ElementsAre;

/// All pairs of five grades: 01 02 03 04 12 13 14 23 24 34.
std::vector<VotingPair> five_grades(double accuracy = 0.9) {
  std::vector<VotingPair> pairs;
  for (std::int64_t first = 0; first < 5; ++first) {
    for (std::int64_t second = first + 1; second < 5; ++second)
      pairs.push_back({first, second, accuracy});
  }
  return pairs;
}

Vote by(VoteRule rule, const std::vector<double>& p, TieBreak tie_break = TieBreak::kMostSevere) {
  return vote(rule, five_grades(), p, 5, {.tie_break = tie_break});
}

/// Every grade wins against the next two, in a ring: (2,2,2,2,2).
std::vector<double> ring(double sure = 0.9) {
  const double no = 1 - sure;
  return {no, no, sure, sure, no, no, sure, no, no, no};
}

TEST(Vote, MajorityCountsTheWinsOfEveryGrade) {
  // Grade 4 beats all others, grade 3 all but 4, and so on.
  const Vote severe = by(VoteRule::kMajority, std::vector<double>(10, 0.9));
  EXPECT_THAT(severe.scores, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(severe.winner, 4);
  EXPECT_FALSE(severe.is_tied);
  EXPECT_DOUBLE_EQ(severe.margin, 0.1);
  EXPECT_EQ(by(VoteRule::kMajority, std::vector<double>(10, 0.1)).winner, 0);
}

TEST(Vote, ProbabilityAtTheThresholdIsAVoteForTheFirstClass) {
  EXPECT_EQ(by(VoteRule::kMajority, std::vector<double>(10, 0.5)).winner, 0);
  const std::vector<double> p(10, 0.6);
  EXPECT_EQ(vote(VoteRule::kMajority, five_grades(), p, 5, {.threshold = 0.6}).winner, 0);
  EXPECT_EQ(vote(VoteRule::kMajority, five_grades(), p, 5, {.threshold = 0.59}).winner, 4);
}

TEST(Vote, TieBreakOfTheRecipeDecidesAFiveWayTie) {
  const Vote tied = by(VoteRule::kMajority, ring());
  EXPECT_THAT(tied.scores, ElementsAre(2, 2, 2, 2, 2));
  EXPECT_TRUE(tied.is_tied);
  EXPECT_EQ(tied.margin, 0);
  EXPECT_EQ(tied.winner, 4);
  EXPECT_EQ(by(VoteRule::kMajority, ring(), TieBreak::kHighest).winner, 4);
  EXPECT_EQ(by(VoteRule::kMajority, ring(), TieBreak::kLowest).winner, 0);
  // All sums of probabilities are equal too, so the most severe grade wins.
  EXPECT_EQ(by(VoteRule::kMajority, ring(), TieBreak::kProbabilitySum).winner, 4);
  std::vector<double> surer = ring();
  surer[4] = 0.02;  // the network of 1 and 2
  EXPECT_EQ(by(VoteRule::kMajority, surer, TieBreak::kProbabilitySum).winner, 1);
}

TEST(Vote, TenVotesAreTiedIn424Of1024Tables) {
  int tied = 0, mildest = 0;
  for (int table = 0; table < 1024; ++table) {
    std::vector<double> p;
    for (int i = 0; i < 10; ++i) p.push_back((table >> i & 1) != 0 ? 0.9 : 0.1);
    const Vote severe = by(VoteRule::kMajority, p),
               mild = by(VoteRule::kMajority, p, TieBreak::kLowest);
    tied += severe.is_tied;
    mildest += mild.winner < severe.winner;
    EXPECT_EQ(mild.winner == severe.winner, !severe.is_tied) << table;
  }
  EXPECT_EQ(tied, 424);
  EXPECT_EQ(mildest, 424);
}

TEST(Vote, SoftVoteSumsProbabilities) {
  const Vote one = by(VoteRule::kSoft, {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.25});
  EXPECT_NEAR(one.scores[0], 0.9 + 0.8 + 0.7 + 0.6, 1e-12);
  EXPECT_NEAR(one.scores[1], 0.1 + 0.5 + 0.4 + 0.3, 1e-12);
  EXPECT_NEAR(one.scores[2], 0.2 + 0.5 + 0.2 + 0.1, 1e-12);
  EXPECT_NEAR(one.scores[3], 0.3 + 0.6 + 0.8 + 0.75, 1e-12);
  EXPECT_NEAR(one.scores[4], 0.4 + 0.7 + 0.9 + 0.25, 1e-12);
  EXPECT_EQ(one.winner, 0);
  EXPECT_NEAR(one.margin, (3.0 - 2.45) / 10, 1e-12);
}

TEST(Vote, NetworksAreWeightedByAccuracyOrConfidence) {
  const std::vector<VotingPair> pairs = {{0, 1, 0.5}, {0, 2, 1.0}, {1, 2, 0.8}};
  const std::vector<double> p = {0.9, 0.4, 0.3};
  const Vote accuracy = vote(VoteRule::kAccuracyWeighted, pairs, p, 3, {});
  EXPECT_NEAR(accuracy.scores[0], 0.5 * 0.1 + 1.0 * 0.6, 1e-12);
  EXPECT_NEAR(accuracy.scores[1], 0.5 * 0.9 + 0.8 * 0.7, 1e-12);
  EXPECT_NEAR(accuracy.scores[2], 1.0 * 0.4 + 0.8 * 0.3, 1e-12);
  const Vote confidence = vote(VoteRule::kConfidenceWeighted, pairs, p, 3, {});
  EXPECT_NEAR(confidence.scores[0], 0.8 * 0.1 + 0.2 * 0.6, 1e-12);
  EXPECT_NEAR(confidence.scores[1], 0.8 * 0.9 + 0.4 * 0.7, 1e-12);
  EXPECT_NEAR(confidence.scores[2], 0.2 * 0.4 + 0.4 * 0.3, 1e-12);
}

TEST(Vote, NetworksOfSeveralModelsAreSummed) {
  std::vector<VotingPair> pairs = {{0, 1}, {0, 2}, {1, 2}, {0, 1}, {0, 2}, {1, 2}};
  const Vote one =
      vote(VoteRule::kMajority, pairs, std::vector<double>{0.9, 0.9, 0.1, 0.2, 0.9, 0.8}, 3, {});
  EXPECT_THAT(one.scores, ElementsAre(1, 2, 3));
}

/// Returns what the published rule adds to the score of a grade before the softmax.
double published_difference(const Vote& vote, std::size_t grade, std::size_t other) {
  return std::log(vote.scores[grade]) - std::log(vote.scores[other]);
}

// The weight of grade 4 is 1.8, 2.7, 4.05, 6.075 in its four pairs; the weight of grade 3 is 1.2,
// 1.44, 1.728, 2.0736: the boost applies to the result of the previous pair.
TEST(Vote, PublishedBoostsCompoundAlongThePairs) {
  // Grade 0 wins all of its pairs, 4 only the one against 0, and 3 the one against 4: score 0.9,
  // and means with these weights.
  std::vector<double> p = {0.1, 0.1, 0.1, 0.9, 0.5, 0.5, 0.1, 0.5, 0.1, 0.1};
  const Vote one = by(VoteRule::kSeedWeighted, p);
  const double four = (1.8 * 0.9 + 0.1 * (2.7 + 4.05 + 6.075)) / (1.8 + 2.7 + 4.05 + 6.075);
  const double three =
      (1.2 * 0.1 + 2.0736 * 0.9) / (1.2 + 2.0736);  // undecided networks do not count
  const double zero = (3 * 0.9 + 0.1) / 4;
  EXPECT_NEAR(published_difference(one, 4, 0), four - zero, 1e-6);
  EXPECT_NEAR(published_difference(one, 3, 0), three - zero, 1e-6);
  double sum = 0;
  for (const double score : one.scores) sum += score;
  EXPECT_NEAR(sum, 1, 1e-12);
}

TEST(Vote, PublishedWeightIsTheSquaredAccuracyInPercent) {
  // The weights are squared percentages: an accuracy of 90% gives 8100, times 1.5. Only the ratio
  // of 8100 to 3600 differs from the other pairs.
  std::vector<VotingPair> pairs = five_grades(0.9);
  pairs[0].accuracy = 0.6;
  const std::vector<double> p = {0.9, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1};
  const Vote one = vote(VoteRule::kSeedWeighted, pairs, p, 5, {});
  const double zero = (0.36 * 0.1 + 3 * 0.81 * 0.9) / (0.36 + 3 * 0.81);
  const double two = (0.1 + 0.1 + 2 * 0.9) / 4;
  EXPECT_NEAR(published_difference(one, 0, 2), zero - two, 1e-6);
}

TEST(Vote, TemperatureDividesTheLogit) {
  EXPECT_DOUBLE_EQ(pair_probability(0, {}), 0.5);
  EXPECT_DOUBLE_EQ(pair_probability(3, {}), 1 / (1 + std::exp(-3.0)));
  EXPECT_DOUBLE_EQ(pair_probability(3, {.temperature = 2}), 1 / (1 + std::exp(-1.5)));
  EXPECT_EQ(pair_probability(-1e6, {}), 0);
  EXPECT_EQ(pair_probability(1e6, {}), 1);
}

TEST(Vote, ScoresThatDifferOnlyByRoundingAreTied) {
  const std::vector<VotingPair> pairs = {{0, 1}, {0, 2}, {1, 2}};
  const Vote one = vote(VoteRule::kSoft, pairs, std::vector<double>{0.1 + 0.2, 0.3, 0.9}, 3, {});
  EXPECT_FALSE(one.is_tied);
  const Vote tied =
      vote(VoteRule::kSoft, pairs, std::vector<double>{0.3, 0.7, 0.3 + 1e-17 + 0.0}, 3, {});
  EXPECT_NEAR(tied.scores[0], 1.0, 1e-12);
  EXPECT_NEAR(tied.scores[1], 1.0, 1e-12);
  EXPECT_TRUE(tied.is_tied);
  EXPECT_EQ(tied.winner, 2);
}

TEST(Vote, EveryRuleAndTieBreakHasAName) {
  EXPECT_EQ(name(VoteRule::kPairwiseCoupling), "pairwise_coupling");
  EXPECT_TRUE(needs_accuracies(VoteRule::kSeedWeighted));
  EXPECT_TRUE(needs_accuracies(VoteRule::kAccuracyWeighted));
  EXPECT_FALSE(needs_accuracies(VoteRule::kMajority));
}

}  // namespace
}  // namespace stages
