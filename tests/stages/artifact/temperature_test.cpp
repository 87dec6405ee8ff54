#include "stages/artifact/temperature.h"

#include <cmath>

#include <gtest/gtest.h>

namespace stages {
namespace {

TEST(Temperature, MatchesConfidenceToAccuracy) {
  // Three of four samples are correct: the best probability is 0.75, and log(3) / T' = 4 / T.
  std::vector<ScoredClass> samples;
  for (const std::int64_t label : {0, 0, 0, 1}) samples.push_back({ClassScores({4, 0}), label});
  EXPECT_NEAR(fitted_temperature(samples), 4 / std::log(3.0), 1e-8);
}

TEST(Temperature, MinimizesTheLossOfSeveralClasses) {
  const std::vector<ScoredClass> samples = {{ClassScores({2, 1, -1}), 0},
                                            {ClassScores({0, 3, 1}), 2},
                                            {ClassScores({1, 0.5, 2}), 2},
                                            {ClassScores({-1, 4, 0}), 1},
                                            {ClassScores({2, 0, 0}), 1}};
  const auto loss = [&](double temperature) {
    double sum = 0;
    for (const auto& [scores, label] : samples) {
      std::vector<double> logits;
      for (std::int64_t i = 0; i < scores.classes(); ++i)
        logits.push_back(scores.logit(i) / temperature);
      sum -= ClassScores(logits).log_probability(label);
    }
    return sum;
  };
  const double fitted = fitted_temperature(samples);
  EXPECT_LT(loss(fitted), loss(fitted * 1.001));
  EXPECT_LT(loss(fitted), loss(fitted / 1.001));
}

TEST(Temperature, IsLowestIfAllSamplesAreCorrect) {
  const std::vector<ScoredClass> samples = {{ClassScores({1, 0}), 0}, {ClassScores({0, 1}), 1}};
  EXPECT_EQ(fitted_temperature(samples), kLowestTemperature);
}

TEST(Temperature, IsHighestIfMostSamplesAreWrong) {
  const std::vector<ScoredClass> samples = {{ClassScores({1, 0}), 1}, {ClassScores({0, 1}), 0}};
  EXPECT_EQ(fitted_temperature(samples), kHighestTemperature);
}

}  // namespace
}  // namespace stages
