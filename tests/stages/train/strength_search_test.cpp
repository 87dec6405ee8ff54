#include "stages/train/strength_search.h"

#include <cmath>
#include <cstddef>
#include <functional>
#include <vector>

#include <gmock/gmock.h>

namespace stages {
namespace {

/// Measures each strength of a round on its own.
auto each(const std::function<double(double strength)>& accuracy) {
  return [accuracy](const std::vector<double>& strengths) {
    std::vector<double> accuracies;
    for (const double strength : strengths) accuracies.push_back(accuracy(strength));
    return accuracies;
  };
}

/// Returns the measured strengths, as exponents of ten, if the accuracy has a single peak at
/// `peak`.
std::vector<double> exponents_around(double peak, const StrengthRange& range = {}) {
  std::vector<double> exponents;
  for (const MeasuredStrength& one : search_strength(
           range, each([&](double strength) { return -std::abs(std::log10(strength) - peak); })))
    exponents.push_back(std::log10(one.strength));
  return exponents;
}

TEST(StrengthSearch, HalvesTheIntervalAroundThePeakAsClipDoes) {
  const std::vector<double> expected = {-6, -4,   -2,   0,     2,     4,      6,     -3,
                                        -1, -2.5, -1.5, -2.25, -1.75, -2.125, -1.875};
  EXPECT_THAT(exponents_around(-2.05), testing::Pointwise(testing::DoubleNear(1e-12), expected));
}

TEST(StrengthSearch, FindsAPeakBetweenTheFirstValues) {
  const auto measured = search_strength(
      {}, each([](double strength) { return -std::abs(std::log10(strength) - 0.75); }));
  EXPECT_NEAR(std::log10(best_of(measured).strength), 0.75, 1e-12);
}

TEST(StrengthSearch, IndependentStrengthsAreMeasuredInOneRound) {
  std::vector<std::size_t> rounds;
  search_strength({}, [&](const std::vector<double>& strengths) {
    rounds.push_back(strengths.size());
    return std::vector<double>(strengths.begin(), strengths.end());  // the largest is the best
  });
  EXPECT_THAT(rounds, testing::ElementsAre(7, 1, 1, 1, 1));
}

TEST(StrengthSearch, StaysWithinTheRange) {
  EXPECT_THAT(exponents_around(9), testing::Each(testing::Le(6.0)));
  EXPECT_THAT(exponents_around(-9), testing::Each(testing::Ge(-6.0)));
}

TEST(StrengthSearch, LastValueOfAShortRangeIsMeasured) {
  EXPECT_THAT(exponents_around(1, {.least = 1, .most = 10, .per_decade = 1}),
              testing::Pointwise(testing::DoubleNear(1e-12), std::vector<double>{0, 1}));
}

TEST(StrengthSearch, OneValueIsMeasuredOnce) {
  EXPECT_THAT(exponents_around(0, {.least = 1, .most = 1, .per_decade = 8}),
              testing::ElementsAre(0));
}

TEST(StrengthSearch, LargestStrengthWinsAmongEqualAccuracies) {
  const auto measured = search_strength({}, each([](double) { return 0.5; }));
  EXPECT_EQ(best_of(measured).strength, 1e6);
}

}  // namespace
}  // namespace stages
