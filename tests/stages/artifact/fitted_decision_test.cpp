#include "stages/artifact/fitted_decision.h"

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

TEST(FittedDecision, FitsNothingUnlessAsked) {
  const FittedDecision decision = fitted_decision(eight_samples(), {});
  EXPECT_EQ(decision.temperature, 1);
  EXPECT_FALSE(decision.decides());
  EXPECT_THAT(named_numbers(decision), IsEmpty());
  EXPECT_EQ(decision.predicted(ClassScores({0, 1, 0.5})), 1);
}

TEST(FittedDecision, ThresholdFindsTheShareThatIsRequired) {
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

TEST(FittedDecision, NoThresholdWithoutASampleOfTheSecondClass) {
  EXPECT_EQ(fitted_decision(eight_samples().slice(0, 4), {.sensitivity = 0.9}).threshold,
            std::nullopt);
}

TEST(FittedDecision, CutPointsAreOfCalibratedProbabilities) {
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

TEST(FittedDecision, IsFoundAgainAmongTheNumbersOfACheckpoint) {
  const FittedDecision decision{
      .temperature = 1.5, .cut_points = {0.25, 1.75}, .threshold = std::nullopt};
  const FittedDecision again = decision_of(saved(decision), /*classes=*/3);
  EXPECT_EQ(again.temperature, 1.5);
  EXPECT_THAT(again.cut_points, ElementsAre(0.25, 1.75));
  EXPECT_THAT(decision_of(saved({.threshold = 0.25}), 2).threshold, Optional(0.25));
}

}  // namespace
}  // namespace stages
