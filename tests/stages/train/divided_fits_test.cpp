#include "stages/train/divided_fits.h"

#include <array>
#include <cmath>

#include <gmock/gmock.h>

#include "stages/ranks/rank_group.h"

namespace stages {
namespace {

const std::vector<double> kStrengths = {0.1, 1, 10, 100, 1000};

MeasuredFit fit_with(double strength) {
  return {.strength = strength,
          .accuracy = 1 / strength,
          .steps = static_cast<std::int64_t>(strength),
          .largest_gradient = std::sqrt(strength),
          .loss = std::log(strength)};
}

TEST(DividedFits, AllRanksGetTheResultsOfASingleRank) {
  const std::vector<MeasuredFit> whole = divided_fits(kStrengths, nullptr, fit_with);
  ASSERT_EQ(whole.size(), kStrengths.size());
  EXPECT_EQ(whole[2], fit_with(10));
  for (const int size : {1, 2, 3, 7}) {
    run_as_ranks(size, [&](const runner::RankOfRun& own) {
      EXPECT_EQ(divided_fits(kStrengths, group_of(own), fit_with), whole) << size;
    });
  }
}

TEST(DividedFits, EachFitIsComputedByOneRank) {
  std::array<std::vector<double>, 2> fitted;
  run_as_ranks(2, [&](const runner::RankOfRun& own) {
    divided_fits(kStrengths, group_of(own), [&](double strength) {
      fitted[static_cast<std::size_t>(own.rank)].push_back(strength);
      return fit_with(strength);
    });
  });
  EXPECT_THAT(fitted[0], testing::ElementsAre(0.1, 10, 1000));
  EXPECT_THAT(fitted[1], testing::ElementsAre(1, 100));
}

}  // namespace
}  // namespace stages
