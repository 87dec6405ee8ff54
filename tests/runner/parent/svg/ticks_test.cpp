#include "runner/parent/svg/plot.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>

namespace runner {
namespace {

using testing::ElementsAre;

TEST(Ticks, AreMultiplesOfOneTwoOrFive) {
  EXPECT_THAT(nice_ticks(0, 1, 8).labels, ElementsAre("0.0", "0.2", "0.4", "0.6", "0.8", "1.0"));
  EXPECT_THAT(nice_ticks(0.13, 4.4, 6).labels, ElementsAre("0", "1", "2", "3", "4", "5"));
  EXPECT_THAT(nice_ticks(-37, 122, 8).labels, ElementsAre("-50", "0", "50", "100", "150"));
  EXPECT_THAT(nice_ticks(0.00012, 0.00031, 6).labels,
              ElementsAre("1.0e-4", "1.5e-4", "2.0e-4", "2.5e-4", "3.0e-4", "3.5e-4"));
}

TEST(Ticks, OfSmallNumbersShareAPowerOfTen) {
  EXPECT_THAT(nice_ticks(0, 4e-5, 6).labels, ElementsAre("0", "1e-5", "2e-5", "3e-5", "4e-5"));
  EXPECT_THAT(nice_ticks(-2e-8, 1e-8, 4).labels, ElementsAre("-2e-8", "-1e-8", "0", "1e-8"));
  EXPECT_THAT(nice_ticks(0, 0.004, 6).labels,
              ElementsAre("0.000", "0.001", "0.002", "0.003", "0.004"));
  EXPECT_THAT(power_ticks(-5, -3, 4).labels, ElementsAre("1e-5", "1e-4", "0.001"));
}

TEST(Ticks, AxisExtendsToTheOutermostTicks) {
  const Ticks ticks = nice_ticks(0.13, 4.4, 6);
  EXPECT_EQ(ticks.low, 0);
  EXPECT_EQ(ticks.high, 5);
}

TEST(Ticks, ExtendToBothSidesOfASingleValue) {
  EXPECT_THAT(nice_ticks(2, 2, 6).labels, ElementsAre("1.0", "1.5", "2.0", "2.5", "3.0"));
  const Ticks zero = nice_ticks(0, 0, 6);
  EXPECT_LT(zero.low, 0);
  EXPECT_GT(zero.high, 0);
}

TEST(Ticks, AreWholeForWholeNumbers) {
  EXPECT_THAT(whole_ticks(1, 3, 10).labels, ElementsAre("1", "2", "3"));
  EXPECT_THAT(whole_ticks(0, 1, 5).labels, ElementsAre("0", "1"));
  EXPECT_THAT(whole_ticks(1, 1000, 6).labels, ElementsAre("0", "200", "400", "600", "800", "1000"));
}

TEST(Ticks, CoverTheRangeOfPowers) {
  EXPECT_THAT(power_ticks(std::log10(0.02), std::log10(20), 8).labels,
              ElementsAre("0.01", "0.1", "1", "10", "100"));
  EXPECT_THAT(power_ticks(std::log10(0.2), std::log10(0.9), 8).labels,
              ElementsAre("0.1", "0.2", "0.5", "1"));
  EXPECT_THAT(power_ticks(0, 0, 4).labels, ElementsAre("1", "2", "5", "10"));
}

TEST(Ticks, StayFewForManyPowers) {
  for (int most = 3; most <= 9; ++most) {
    for (const double low : {-12.0, -3.5, 0.0, 2.2}) {
      for (const double range : {0.0, 0.1, 1.0, 7.5, 40.0}) {
        const Ticks ticks = power_ticks(low, low + range, most);
        EXPECT_LE(ticks.values.size(), static_cast<std::size_t>(most));
        EXPECT_LE(ticks.low, low);
        EXPECT_GE(ticks.high, low + range);
        EXPECT_LT(ticks.low, ticks.high);
      }
    }
  }
}

TEST(Ticks, CoverEveryRangeWithFewMarks) {
  for (const double size : {1e-300, 3e-9, 0.02, 1.0, 99.0, 7e14, 1e300}) {
    for (const double low : {0.0, -size / 3, size * 5}) {
      for (const int most : {3, 6, 12}) {
        const Ticks ticks = nice_ticks(low, low + size, most);
        EXPECT_LE(ticks.low, low + 1e-12 * size);
        EXPECT_GE(ticks.high, (low + size) * (1 - 1e-12));
        EXPECT_GE(ticks.values.size(), 2u);
        EXPECT_LE(ticks.values.size(), static_cast<std::size_t>(most)) << low << " " << size;
        EXPECT_EQ(ticks.labels.size(), ticks.values.size());
        EXPECT_TRUE(std::ranges::is_sorted(ticks.values));
      }
    }
  }
}

}  // namespace
}  // namespace runner
