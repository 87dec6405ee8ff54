#include "stages/train/early_stopping.h"

#include <cmath>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace stages {
namespace {

TEST(EarlyStopping, LowerLossIsBetter) {
  EarlyStopping stopping(/*higher_is_better=*/false, {});
  EXPECT_TRUE(stopping.observe(1, 2.0));
  EXPECT_FALSE(stopping.observe(2, 2.0));
  EXPECT_TRUE(stopping.observe(3, 1.5));
  EXPECT_EQ(stopping.best_epoch(), 3);
  EXPECT_EQ(stopping.best(), 1.5);
}

TEST(EarlyStopping, HigherAccuracyIsBetter) {
  EarlyStopping stopping(/*higher_is_better=*/true, {});
  EXPECT_TRUE(stopping.observe(1, 0.5));
  EXPECT_FALSE(stopping.observe(2, 0.4));
  EXPECT_TRUE(stopping.observe(3, 0.6));
}

TEST(EarlyStopping, PatienceCountsValidationsSinceTheBest) {
  EarlyStopping stopping(/*higher_is_better=*/false, 2);
  EXPECT_FALSE(stopping.exhausted());
  stopping.observe(5, 1.0);
  EXPECT_FALSE(stopping.exhausted());
  stopping.observe(10, 1.1);
  EXPECT_FALSE(stopping.exhausted());
  stopping.observe(15, 1.2);
  EXPECT_TRUE(stopping.exhausted());
}

TEST(EarlyStopping, ImprovementRestartsTheWait) {
  EarlyStopping stopping(/*higher_is_better=*/true, 2);
  for (const double value : {0.5, 0.4, 0.6, 0.5}) {
    stopping.observe(1, value);
    EXPECT_FALSE(stopping.exhausted());
  }
  stopping.observe(1, 0.6);
  EXPECT_TRUE(stopping.exhausted());
}

TEST(EarlyStopping, NanIsNeverBest) {
  EarlyStopping stopping(/*higher_is_better=*/false, 2);
  EXPECT_FALSE(stopping.observe(1, std::nan("")));
  EXPECT_EQ(stopping.best_epoch(), std::nullopt);
  EXPECT_FALSE(stopping.exhausted());
  EXPECT_FALSE(stopping.observe(2, std::nan("")));
  EXPECT_TRUE(stopping.exhausted());
}

TEST(EarlyStopping, RestoredStateContinuesTheWait) {
  for (const std::vector<double>& seen :
       std::vector<std::vector<double>>{{}, {std::nan("")}, {0.5, 0.25}, {0.5, 0.7}}) {
    EarlyStopping before(/*higher_is_better=*/false, 2), after(/*higher_is_better=*/false, 2);
    std::int64_t epoch = 0;
    for (const double value : seen) before.observe(++epoch, value);
    after.load_state(nlohmann::json::parse(before.state().dump()));
    for (const double value : {0.6, 0.6}) {
      ++epoch;
      EXPECT_EQ(after.observe(epoch, value), before.observe(epoch, value));
      EXPECT_EQ(after.exhausted(), before.exhausted());
      EXPECT_EQ(after.best_epoch(), before.best_epoch());
      EXPECT_EQ(after.best(), before.best());
    }
  }
}

TEST(EarlyStopping, InvalidStateIsRejected) {
  EarlyStopping stopping(/*higher_is_better=*/false, 2);
  for (const char* text :
       {"null", R"({"best_epoch": 1, "best": 0.5})",
        R"({"best_epoch": 1, "best": 0.5, "waited": -1})",
        R"({"best_epoch": "a", "best": 0.5, "waited": 1})", R"({"best_epoch": 1, "waited": 1})"})
    EXPECT_THROW(stopping.load_state(nlohmann::json::parse(text)), std::runtime_error) << text;
}

TEST(EarlyStopping, SmallImprovementsBecomeTheBestButDoNotResetTheWait) {
  EarlyStopping accuracy(/*higher_is_better=*/true, 2, /*minimum_improvement=*/0.25);
  EXPECT_TRUE(accuracy.observe(1, 0.5));
  EXPECT_TRUE(accuracy.observe(2, 0.75));
  EXPECT_FALSE(accuracy.observe(3, 0.75));
  EXPECT_TRUE(accuracy.exhausted());
  EXPECT_EQ(accuracy.best_epoch(), 2);
  EXPECT_EQ(accuracy.reason("accuracy"), "no better validation accuracy since epoch 1");
}

TEST(EarlyStopping, SmallImprovementsAddUp) {
  EarlyStopping loss(/*higher_is_better=*/false, 2, /*minimum_improvement=*/0.25);
  for (const double value : {1.0, 0.8, 0.7, 0.5}) {
    loss.observe(1, value);
    EXPECT_FALSE(loss.exhausted());
  }
  loss.observe(1, 0.46);
  EXPECT_TRUE(loss.exhausted());
}

TEST(EarlyStopping, OlderStateUsesItsBestValueForBothPurposes) {
  EarlyStopping stopping(/*higher_is_better=*/false, 2, /*minimum_improvement=*/0.25);
  stopping.load_state({{"best_epoch", 3}, {"best", 1.0}, {"waited", 1}});
  EXPECT_TRUE(stopping.observe(4, 0.9));
  EXPECT_TRUE(stopping.exhausted());
}

}  // namespace
}  // namespace stages
