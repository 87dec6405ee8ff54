#include "stages/train/parameter_groups.h"

#include <string>

#include <gtest/gtest.h>

namespace stages {
namespace {

TEST(ParameterPattern, NameMatchesAParameterOrAModule) {
  EXPECT_TRUE(matches_parameter("head.weight", "head.weight"));
  EXPECT_TRUE(matches_parameter("head.weight", "head"));
  EXPECT_TRUE(matches_parameter("tower.layers.0.mlp.bias", "tower.layers.0"));
  EXPECT_FALSE(matches_parameter("header.weight", "head"));
  EXPECT_FALSE(matches_parameter("tower.head.weight", "head"));
  EXPECT_FALSE(matches_parameter("head", "head.weight"));
  EXPECT_FALSE(matches_parameter("tower.layers.10.bias", "tower.layers.1"));
}

TEST(ParameterPattern, StarMatchesWithinAName) {
  EXPECT_TRUE(matches_parameter("layers.10.bias", "layers.*.bias"));
  EXPECT_TRUE(matches_parameter("layers.10.bias", "layers.1*"));
  EXPECT_FALSE(matches_parameter("layers.10.mlp.bias", "layers.*.bias"));
  EXPECT_TRUE(matches_parameter("layers.10.mlp.bias", "layers.*"));  // the module layers.10
  EXPECT_TRUE(matches_parameter("norm1.weight", "*norm*.weight"));
  EXPECT_FALSE(matches_parameter("block.norm1.weight", "*norm*.weight"));
}

TEST(ParameterPattern, TwoStarsMatchAcrossDots) {
  EXPECT_TRUE(matches_parameter("a.b.c.bias", "**.bias"));
  EXPECT_TRUE(matches_parameter("bias", "**.bias"));
  EXPECT_FALSE(matches_parameter("a.rebias", "**.bias"));
  EXPECT_TRUE(matches_parameter("a.rebias", "**bias"));
  EXPECT_TRUE(matches_parameter("a.b.c.bias", "a.**.bias"));
  EXPECT_TRUE(matches_parameter("a.bias", "a.**.bias"));
  EXPECT_FALSE(matches_parameter("abias", "a.**.bias"));
  EXPECT_TRUE(matches_parameter("a.b.norm2.weight", "**norm*"));
  EXPECT_TRUE(matches_parameter("anything.at.all", "**"));
  EXPECT_FALSE(matches_parameter("a.b", "**.c.**"));
  EXPECT_TRUE(matches_parameter("a.c.d.e", "**.c.**"));
}

TEST(ParameterPattern, ManyStarsAreMatchedQuickly) {
  std::string pattern;
  for (int i = 0; i < 200; ++i) pattern += "**a*";
  EXPECT_FALSE(matches_parameter(std::string(1000, 'a') + "b", pattern + "c"));
}

}  // namespace
}  // namespace stages
