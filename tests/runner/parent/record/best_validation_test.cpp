#include "runner/parent/record/run_summary.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace runner {
namespace {

using testing::ElementsAre;
using testing::Optional;
using testing::Pair;

Monitor monitor(const nlohmann::ordered_json& options) {
  return monitor_of(from_json(options)).value();
}

TEST(BestValidation, SmallestLossIsBest) {
  BestValidation best(monitor({{"monitor", "loss"}}));
  best.see("train/epoch_loss", 0, 4);
  best.see("validation/loss", 2, 4);
  best.see("validation/accuracy", 0.5, 4);
  best.see("validation/loss", 1, 8);
  best.see("validation/accuracy", 0.25, 8);
  best.see("validation/loss", 3, 12);
  best.see("validation/accuracy", 0.75, 12);
  EXPECT_THAT(best.best_step(), Optional(8));
  EXPECT_THAT(best.kept(),
              ElementsAre(Pair("validation/accuracy", 0.25), Pair("validation/loss", 1)));
}

TEST(BestValidation, LargestScoreIsBestAndTheFirstOneWinsTies) {
  BestValidation best(monitor({{"monitor", "accuracy"}}));
  for (const std::int64_t step : {4, 8, 12}) {
    best.see("validation/loss", static_cast<double>(step), step);
    best.see("validation/accuracy", step == 4 ? 0.5 : 0.75, step);
  }
  EXPECT_THAT(best.best_step(), Optional(8));
  EXPECT_THAT(best.kept(),
              ElementsAre(Pair("validation/accuracy", 0.75), Pair("validation/loss", 8)));
}

TEST(BestValidation, ImprovementsBelowTheMinimumCount) {
  BestValidation best(monitor({{"monitor", "loss"}, {"minimum_improvement", 0.5}}));
  best.see("validation/loss", 2, 1);
  best.see("validation/loss", 1.75, 2);
  EXPECT_THAT(best.best_step(), Optional(2));
  best.see("validation/loss", 1.75, 3);
  EXPECT_THAT(best.best_step(), Optional(2));
}

TEST(BestValidation, NanIsNeverTheBest) {
  BestValidation best(monitor({{"monitor", "loss"}}));
  best.see("validation/loss", std::nan(""), 1);
  EXPECT_EQ(best.best_step(), std::nullopt);
  best.see("validation/loss", 2, 2);
  EXPECT_THAT(best.best_step(), Optional(2));
}

TEST(BestValidation, LastWeightsHaveTheLastMetrics) {
  BestValidation best(monitor({{"monitor", "loss"}, {"keep", "last"}}));
  best.see("validation/loss", 1, 1);
  best.see("validation/loss", 2, 2);
  EXPECT_THAT(best.best_step(), Optional(1));
  EXPECT_THAT(best.kept(), ElementsAre(Pair("validation/loss", 2)));
}

TEST(BestValidation, StageWithoutAMonitorHasNoBest) {
  EXPECT_FALSE(monitor_of(from_json({{"epochs", 2}})).has_value());
}

}  // namespace
}  // namespace runner
