#include "runner/parent/sweep/sweep_journal.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>

namespace runner {
namespace {

using testing::ElementsAre;

/// Returns which trials stop if they reach the first rung with these values.
std::vector<bool> stopped(const std::vector<double>& values, bool is_smaller_better = false,
                          std::int64_t factor = 3) {
  Asha asha({.factor = factor, .last = {}}, is_smaller_better);
  std::vector<bool> all;
  for (const double value : values)
    all.push_back(asha.stops({.trial = all.size(), .rung = 0, .value = value}));
  return all;
}

TEST(Asha, RungsGrowByTheFactorUpToTheLast) {
  const Asha asha({.first = 2, .factor = 3, .last = 20}, false);
  std::vector<std::int64_t> rungs;
  for (std::int64_t values = 0; values < 200; ++values) {
    if (const auto rung = asha.rung_at(values)) {
      EXPECT_EQ(*rung, rungs.size());
      rungs.push_back(values);
    }
  }
  EXPECT_THAT(rungs, ElementsAre(2, 6, 18));
  const Asha endless({.last = {}}, false);
  EXPECT_EQ(endless.rung_at(4052555153018976267), 39u)
      << "3 to the power of 39, and nothing overflows on the way";
  EXPECT_EQ(endless.rung_at(std::numeric_limits<std::int64_t>::max()), std::nullopt);
}

TEST(Asha, BestShareOfTheTrialsContinues) {
  EXPECT_THAT(stopped({0.5, 0.4, 0.6, 0.55, 0.7, 0.65}),
              ElementsAre(false, true, false, true, false, false));
  EXPECT_THAT(stopped({0.5, 0.4, 0.6, 0.55}, true), ElementsAre(false, false, true, true));
  EXPECT_THAT(stopped({1, 2, 3, 1, 4}, false, 2), ElementsAre(false, false, false, true, false));
}

TEST(Asha, EqualTrialsContinueAndNanLoses) {
  EXPECT_THAT(stopped({1, 1, 1}), ElementsAre(false, false, false));
  EXPECT_THAT(stopped({NAN, 0, NAN, -1}), ElementsAre(false, false, true, true));
}

TEST(Asha, RungsAreComparedSeparately) {
  Asha asha({.last = {}}, false);
  EXPECT_FALSE(asha.stops({.trial = 0, .rung = 0, .value = 1}));
  EXPECT_FALSE(asha.stops({.trial = 0, .rung = 1, .value = 2}));
  EXPECT_TRUE(asha.stops({.trial = 1, .rung = 0, .value = 0.5}));
  EXPECT_TRUE(asha.stops({.trial = 2, .rung = 1, .value = 1.5}));
}

}  // namespace
}  // namespace runner
