#include "stages/artifact/fitted_decision.h"

#include <cmath>

#include <gmock/gmock.h>
#include <torch/types.h>

#include "stages/artifact/temperature.h"

namespace stages {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Optional;

std::map<std::string, double> saved(const FittedDecision& decision) {
  const auto named = named_numbers(decision);
  return {named.begin(), named.end()};
}

/// Two logits and the label of each sample.
at::Tensor eight_samples() {
  return torch::tensor({{0.0, 4.0, 1.0},
                        {0.0, 3.0, 1.0},
                        {0.0, 2.0, 1.0},
                        {0.0, -1.0, 1.0},
                        {0.0, 1.0, 0.0},
                        {0.0, -2.0, 0.0},
                        {0.0, -3.0, 0.0},
                        {0.0, -4.0, 0.0}},
                       at::kFloat);
}

TEST(FittedDecision, FitsNothingByDefault) {
  const FittedDecision decision = fitted_decision(eight_samples(), {});
  EXPECT_EQ(decision.temperature, 1);
  EXPECT_FALSE(decision.decides());
  EXPECT_THAT(named_numbers(decision), IsEmpty());
  EXPECT_EQ(decision.predicted(ClassScores({0, 1, 0.5})), 1);
}

TEST(FittedDecision, ThresholdReachesTheRequiredSensitivity) {
  const auto found = [](double sensitivity) {
    const FittedDecision decision = fitted_decision(eight_samples(), {.sensitivity = sensitivity});
    std::int64_t count = 0;
    for (std::int64_t row = 0; row < 4; ++row)
      count += decision.predicted(class_scores(eight_samples().slice(1, 0, 2), row));
    return count;
  };
  EXPECT_EQ(found(0.5), 2);
  EXPECT_EQ(found(0.51), 3);
  EXPECT_EQ(found(1), 4);
}

TEST(FittedDecision, ThresholdNeedsASampleOfTheSecondClass) {
  EXPECT_EQ(fitted_decision(eight_samples().slice(0, 4), {.sensitivity = 0.9}).threshold,
            std::nullopt);
}

TEST(FittedDecision, CutPointsUseCalibratedProbabilities) {
  const FittedDecision both =
      fitted_decision(eight_samples(), {.temperature = true, .cut_points = true});
  EXPECT_NE(both.temperature, 1);
  const FittedDecision of_calibrated =
      fitted_decision(torch::cat({eight_samples().slice(1, 0, 2).to(at::kDouble) / both.temperature,
                                  eight_samples().slice(1, 2).to(at::kDouble)},
                                 1),
                      {.cut_points = true});
  EXPECT_EQ(both.cut_points, of_calibrated.cut_points);
}

TEST(FittedDecision, OrdinalHeadPredictsTheMedianAtEveryTemperature) {
  const std::vector<double> shares = {0.3, 0.25, 0.45};  // the largest is the last
  for (const double temperature : {0.2, 1.0, 5.0}) {
    std::vector<double> logits;
    for (const double share : shares) logits.push_back(std::log(share) / temperature);
    FittedDecision decision{.temperature = temperature, .ordinal = OrdinalHead::kCorn};
    EXPECT_EQ(decision.predicted(ClassScores(logits)), 1) << temperature;
    EXPECT_TRUE(decision.decides());
    EXPECT_FALSE(decision.is_fitted());
    decision.cut_points = {0, 0};
    EXPECT_EQ(decision.predicted(ClassScores(logits)), 2) << temperature;
  }
}

TEST(FittedDecision, IsRestoredFromACheckpoint) {
  const FittedDecision decision{
      .temperature = 1.5, .cut_points = {0.25, 1.75}, .threshold = std::nullopt};
  const FittedDecision again = decision_of(saved(decision), /*classes=*/3);
  EXPECT_EQ(again.temperature, 1.5);
  EXPECT_THAT(again.cut_points, ElementsAre(0.25, 1.75));
  EXPECT_THAT(decision_of(saved({.threshold = 0.25}), 2).threshold, Optional(0.25));
}

}  // namespace
}  // namespace stages
