#include "stages/train/pending_steps.h"

#include <limits>

#include <gtest/gtest.h>

namespace stages {
namespace {

TEST(UsualSize, FirstValueMayBeLarge) {
  UsualSize usual(100);
  EXPECT_FALSE(usual.observe(1e29));
  EXPECT_FALSE(usual.usual());
  EXPECT_TRUE(usual.observe(500));
  EXPECT_EQ(usual.usual(), 500);
}

TEST(UsualSize, SmallValuesMayGrowAHundredfold) {
  UsualSize usual(100);
  EXPECT_TRUE(usual.observe(1e-9));
  EXPECT_TRUE(usual.observe(99));
}

TEST(UsualSize, JumpIsDisproportionateAndIgnored) {
  UsualSize usual(100);
  usual.observe(2);
  EXPECT_FALSE(usual.observe(-201));
  EXPECT_FALSE(usual.observe(201));
  EXPECT_TRUE(usual.observe(199));
  EXPECT_FALSE(usual.observe(std::numeric_limits<double>::infinity()));
}

TEST(UsualSize, GradualGrowthIsNoticed) {
  UsualSize usual(100);
  bool is_usual = true;
  for (double loss = 2; loss < 1e6; loss *= 3) is_usual &= usual.observe(loss);
  EXPECT_FALSE(is_usual);
}

TEST(UsualSize, LongDeclineDoesNotForgetLargerValues) {
  UsualSize usual(100);
  usual.observe(2.3);
  for (int step = 0; step < 1000; ++step) usual.observe(1e-4);
  EXPECT_TRUE(usual.observe(8));  // one hard sample
}

}  // namespace
}  // namespace stages
