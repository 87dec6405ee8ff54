#include "runner/parent/registry/run_filter.h"

#include <cmath>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace runner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Values = std::map<std::string, std::vector<RunValue>>;

const Values kRun = {{"accuracy", {0.75}},
                     {"epochs", {10.0}},
                     {"model.kind", {std::string("model.lora")}},
                     {"started", {std::string("2026-01-31T12:00:00+0000")}},
                     {"name", {std::string("two words")}},
                     {"tag", {std::string("best"), std::string("old")}},
                     {"lost", {std::nan("")}}};

bool takes(const std::string& text, const Values& run = kRun) {
  Sources sources;
  const auto filter = RunFilter::parse(text, sources);
  EXPECT_TRUE(filter) << text;
  if (!filter) return false;
  std::vector<std::vector<RunValue>> values;
  for (const std::string& key : filter->keys())
    values.push_back(run.contains(key) ? run.at(key) : std::vector<RunValue>());
  return filter->takes(values);
}

std::string mistake(const std::string& text) {
  Sources sources;
  const auto filter = RunFilter::parse(text, sources);
  if (filter) return "none";
  const Diagnostic& error = filter.errors().front();
  return std::to_string(error.where.column) + ": " + error.message;
}

TEST(RunFilter, ComparesNumbersAsNumbers) {
  EXPECT_TRUE(takes("accuracy>0.7"));
  EXPECT_FALSE(takes("accuracy>0.75"));
  EXPECT_TRUE(takes("accuracy>=.75"));
  EXPECT_TRUE(takes("accuracy<=7.5e-1"));
  EXPECT_TRUE(takes("epochs>9"));  // as strings, "10" < "9"
  EXPECT_FALSE(takes("epochs<9"));
  EXPECT_TRUE(takes("epochs==10.0"));
  EXPECT_TRUE(takes("epochs!=11"));
}

TEST(RunFilter, ComparesStringsAsStrings) {
  EXPECT_TRUE(takes("started>2026-01-30"));
  EXPECT_FALSE(takes("started<2026-01-31"));
  EXPECT_TRUE(takes("name='two words'"));
  EXPECT_TRUE(takes("name=\"two words\""));
  EXPECT_FALSE(takes("epochs='9'"));
  EXPECT_FALSE(takes("accuracy>high"));  // "0.75" > "high" is false
}

TEST(RunFilter, FamilyOfAKindMayBeOmitted) {
  EXPECT_TRUE(takes("model.kind=lora"));
  EXPECT_TRUE(takes("model.kind=model.lora"));
  EXPECT_FALSE(takes("model.kind!=lora"));
  EXPECT_FALSE(takes("model.kind=data.lora"));
  EXPECT_FALSE(takes("model.kind=linear_probe"));
}

TEST(RunFilter, AndBindsCloserThanOr) {
  EXPECT_TRUE(takes("accuracy>0.7 | accuracy>0.9 & epochs=1"));
  EXPECT_FALSE(takes("(accuracy>0.7 | accuracy>0.9) & epochs=1"));
  EXPECT_TRUE(takes("accuracy>0.7 && epochs=10 || epochs=1"));
  EXPECT_TRUE(takes("!(accuracy>0.9) & !epochs=1"));
  EXPECT_FALSE(takes("! accuracy > 0.7"));
}

TEST(RunFilter, ComparisonsWithMissingKeysAreFalse) {
  EXPECT_FALSE(takes("other=1"));
  EXPECT_FALSE(takes("other!=1"));
  EXPECT_TRUE(takes("!other=1"));
}

TEST(RunFilter, OnlyInequalityHoldsForNan) {
  EXPECT_FALSE(takes("lost<1"));
  EXPECT_FALSE(takes("lost>=1"));
  EXPECT_FALSE(takes("lost>a"));
  EXPECT_TRUE(takes("lost!=1"));
}

TEST(RunFilter, AnyOfSeveralTagsMatches) {
  EXPECT_TRUE(takes("tag=old"));
  EXPECT_FALSE(takes("tag!=old"));
  EXPECT_TRUE(takes("tag!=new"));
}

TEST(RunFilter, EmptyFilterMatchesEveryRun) {
  EXPECT_TRUE(takes(""));
  EXPECT_TRUE(takes("  "));
}

TEST(RunFilter, ListsEachKeyOnce) {
  Sources sources;
  EXPECT_THAT(RunFilter::parse("a=1 & b.c<2 | a=3", sources)->keys(), ElementsAre("a", "b.c"));
}

TEST(RunFilter, ReportsTheColumnOfAnError) {
  EXPECT_EQ(mistake("accuracy"), "9: expected =, !=, <, <=, > or >= after 'accuracy'");
  EXPECT_EQ(mistake("accuracy>"), "10: expected a value to compare 'accuracy' with");
  EXPECT_EQ(mistake("a=1 b=2"), "5: expected '&' or '|' between two comparisons");
  EXPECT_EQ(mistake("a=1 & "), "7: expected a key, such as accuracy or model.kind");
  EXPECT_EQ(mistake("(a=1"), "5: expected ')'");
  EXPECT_EQ(mistake("a=1)"), "4: expected '&' or '|' between two comparisons");
  EXPECT_EQ(mistake("a='x"), "3: this quote is not closed");
  EXPECT_EQ(mistake("=1"), "1: expected a key, such as accuracy or model.kind");
  EXPECT_EQ(mistake("a!1"), "2: expected =, !=, <, <=, > or >= after 'a'");
}

TEST(RunFilter, DeepNestingIsRejected) {
  EXPECT_EQ(mistake(std::string(1000000, '(')), "65: parentheses and ! are nested too deeply");
  EXPECT_EQ(mistake(std::string(1000000, '!')), "65: parentheses and ! are nested too deeply");
  EXPECT_EQ(mistake(std::string(60, '(') + "a=1" + std::string(60, ')')), "none");
}

TEST(RunFilter, WordWithAComparisonLooksLikeAFilter) {
  EXPECT_TRUE(looks_like_filter("a=1"));
  EXPECT_FALSE(looks_like_filter("outputs/2026-01-31"));
}

}  // namespace
}  // namespace runner
