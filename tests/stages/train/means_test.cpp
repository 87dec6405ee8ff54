#include "stages/train/training_log.h"

#include <stdexcept>

#include <gtest/gtest.h>

namespace stages {
namespace {

TEST(Means, LossesAreWeightedAndScoresCountSamples) {
  Means means;
  means.add(
      {.weight = 3, .units = 1, .loss = 1.0, .terms = {{"a", 1.0}}, .scores = {{"accuracy", 1.0}}});
  means.add(
      {.weight = 1, .units = 3, .loss = 5.0, .terms = {{"a", 5.0}}, .scores = {{"accuracy", 0.0}}});
  EXPECT_DOUBLE_EQ(means.at("loss"), 2.0);
  EXPECT_DOUBLE_EQ(means.at("a"), 2.0);
  EXPECT_DOUBLE_EQ(means.at("accuracy"), 0.25);
  EXPECT_EQ(means.weight, 4);
  EXPECT_EQ(means.units, 4);
}

TEST(Means, UnknownNameIsReported) { EXPECT_THROW(Means{}.at("accuracy"), std::out_of_range); }

}  // namespace
}  // namespace stages
