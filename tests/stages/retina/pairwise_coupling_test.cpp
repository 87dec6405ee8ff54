#include "stages/retina/vote.h"

#include <numeric>

#include <gtest/gtest.h>

namespace stages {
namespace {

std::vector<PairOpinion> opinions_of(const std::vector<double>& p) {
  std::vector<PairOpinion> opinions;
  for (std::size_t i = 0; i < p.size(); ++i) {
    for (std::size_t j = i + 1; j < p.size(); ++j)
      opinions.push_back(
          {static_cast<std::int64_t>(i), static_cast<std::int64_t>(j), p[i] / (p[i] + p[j])});
  }
  return opinions;
}

TEST(PairwiseCoupling, ConsistentOpinionsRecoverTheirProbabilities) {
  const std::vector<double> p = {0.02, 0.13, 0.5, 0.05, 0.3};
  const std::vector<double> coupled = couple(opinions_of(p), 5);
  for (std::size_t i = 0; i < p.size(); ++i) EXPECT_NEAR(coupled[i], p[i], 1e-10) << i;
}

// At the solution, the expected wins of every class equal its actual wins: the condition for the
// smallest distance.
TEST(PairwiseCoupling, ExpectedWinsEqualActualWins) {
  const std::vector<PairOpinion> opinions = {{0, 1, 0.9},  {0, 2, 0.4},  {0, 3, 0.7},
                                             {1, 2, 0.35}, {1, 3, 0.05}, {2, 3, 0.8}};
  const std::vector<double> p = couple(opinions, 4);
  EXPECT_NEAR(std::accumulate(p.begin(), p.end(), 0.0), 1, 1e-12);
  for (std::int64_t label = 0; label < 4; ++label) {
    double won = 0, expected = 0;
    for (const auto& [first, second, share] : opinions) {
      if (first != label && second != label) continue;
      const std::int64_t other = first == label ? second : first;
      won += first == label ? share : 1 - share;
      expected += p[static_cast<std::size_t>(label)] /
                  (p[static_cast<std::size_t>(label)] + p[static_cast<std::size_t>(other)]);
    }
    EXPECT_NEAR(won, expected, 1e-9) << label;
  }
}

TEST(PairwiseCoupling, TwoSetsOfNetworksAreAveraged) {
  std::vector<PairOpinion> twice = {{0, 1, 0.9}, {0, 2, 0.6}, {1, 2, 0.2},
                                    {0, 1, 0.7}, {0, 2, 0.2}, {1, 2, 0.4}};
  const std::vector<double> both = couple(twice, 3),
                            mean = couple({{0, 1, 0.8}, {0, 2, 0.4}, {1, 2, 0.3}}, 3);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(both[i], mean[i], 1e-10) << i;
}

TEST(PairwiseCoupling, ClassThatNeverWinsIsUnlikelyButPossible) {
  const std::vector<double> p = couple({{0, 1, 1}, {0, 2, 1}, {1, 2, 1}}, 3);
  EXPECT_GT(p[0], 0.999);
  EXPECT_GT(p[1], p[2]);
  EXPECT_GT(p[2], 0);
}

}  // namespace
}  // namespace stages
