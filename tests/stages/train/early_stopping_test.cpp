#include "stages/train/early_stopping.h"

#include <cmath>

#include <gtest/gtest.h>

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

TEST(EarlyStopping, PatienceCountsEpochsSinceTheBest) {
  EarlyStopping stopping(/*higher_is_better=*/false, 2);
  stopping.observe(1, 1.0);
  stopping.observe(2, 1.1);
  EXPECT_FALSE(stopping.exhausted(2));
  stopping.observe(3, 1.2);
  EXPECT_TRUE(stopping.exhausted(3));
}

TEST(EarlyStopping, NotANumberIsNeverBest) {
  EarlyStopping stopping(/*higher_is_better=*/false, 2);
  EXPECT_FALSE(stopping.observe(1, std::nan("")));
  EXPECT_EQ(stopping.best_epoch(), std::nullopt);
  EXPECT_FALSE(stopping.exhausted(1));
  EXPECT_FALSE(stopping.observe(2, std::nan("")));
  EXPECT_TRUE(stopping.exhausted(2));
}

}  // namespace
}  // namespace stages
