#include "stages/numerics/precision_map.h"

#include <gtest/gtest.h>

namespace stages {
namespace {

using enum Precision;

Precision precision_at(const PrecisionMap& map, std::string_view path) {
  const PrecisionRule* rule = map.rule_for(path);
  return rule ? rule->precision : map.base;
}

TEST(PrecisionMap, RuleAppliesToAllSubmodules) {
  const PrecisionMap map(kBf16, {{"encoder.layers", kFp32}});
  EXPECT_EQ(precision_at(map, "encoder.layers"), kFp32);
  EXPECT_EQ(precision_at(map, "encoder.layers.0.mlp.fc1"), kFp32);
  EXPECT_EQ(precision_at(map, "encoder"), kBf16);
  EXPECT_EQ(precision_at(map, "encoder.layers2"), kBf16);
  EXPECT_EQ(precision_at(map, ""), kBf16);
}

TEST(PrecisionMap, EmptyRuleAppliesToTheWholeNetwork) {
  const PrecisionMap map(kBf16, {{"", kFp32}});
  EXPECT_EQ(precision_at(map, ""), kFp32);
  EXPECT_EQ(precision_at(map, "head"), kFp32);
}

TEST(PrecisionMap, StarMatchesOneName) {
  const PrecisionMap map(kBf16, {{"layers.*.mlp", kFp32}, {"tower.*", kFp16}});
  EXPECT_EQ(precision_at(map, "layers.0.mlp"), kFp32);
  EXPECT_EQ(precision_at(map, "layers.11.mlp.fc1"), kFp32);
  EXPECT_EQ(precision_at(map, "layers.0.attention"), kBf16);
  EXPECT_EQ(precision_at(map, "layers.mlp"), kBf16);
  EXPECT_EQ(precision_at(map, "tower"), kBf16);
  EXPECT_EQ(precision_at(map, "tower.embeddings.patch"), kFp16);
}

TEST(PrecisionMap, MostSpecificNameWinsInAnyOrder) {
  const std::vector<PrecisionRule> rules = {{"a", kFp32}, {"a.b", kBf16}, {"a.*.c", kFp16}};
  for (const PrecisionMap& map :
       {PrecisionMap(kFp32, rules), PrecisionMap(kFp32, {rules.rbegin(), rules.rend()})}) {
    EXPECT_EQ(precision_at(map, "a"), kFp32);
    EXPECT_EQ(precision_at(map, "a.b"), kBf16);
    EXPECT_EQ(precision_at(map, "a.b.d"), kBf16);
    EXPECT_EQ(precision_at(map, "a.b.c"), kFp16);
  }
}

TEST(PrecisionMap, NameWinsOverAStar) {
  const std::vector<PrecisionRule> rules = {{"*.b", kFp32}, {"a.*", kBf16}, {"*.*", kFp16}};
  for (const PrecisionMap& map :
       {PrecisionMap(kFp32, rules), PrecisionMap(kFp32, {rules.rbegin(), rules.rend()})}) {
    EXPECT_EQ(precision_at(map, "a.b"), kBf16);
    EXPECT_EQ(precision_at(map, "x.b"), kFp32);
    EXPECT_EQ(precision_at(map, "x.y"), kFp16);
  }
}

TEST(PrecisionMap, UsesThePrecisionOfAnyRule) {
  EXPECT_TRUE(PrecisionMap(kFp16).uses(kFp16));
  EXPECT_TRUE(PrecisionMap(kBf16, {{"head", kFp16}}).uses(kFp16));
  EXPECT_FALSE(PrecisionMap(kBf16, {{"head", kFp32}}).uses(kFp16));
}

TEST(PrecisionMap, PatternMatchesOnlyModulesAtItsDepth) {
  EXPECT_TRUE(names_module("a.*", "a.b"));
  EXPECT_FALSE(names_module("a.*", "a.b.c"));
  EXPECT_FALSE(names_module("a.*", "a"));
  EXPECT_TRUE(names_module("", ""));
  EXPECT_FALSE(names_module("", "a"));
}

}  // namespace
}  // namespace stages
