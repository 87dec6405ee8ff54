#include "runner/parent/schema/rule.h"

#include <stdexcept>

#include <gtest/gtest.h>

namespace runner {
namespace {

const Value* option(std::string_view path) {
  static const Value kWidth{std::int64_t{770}, {}}, kHeads{std::int64_t{12}, {}}, kRate{0.25, {}};
  static const Value kAuto{"auto", {}}, kTrue{true, {}}, kNull{nullptr, {}},
      kList{Value::List(3), {}};
  static const Value kEpochs{
      Value::List{Value{std::int64_t{9}, {}}, Value{2.5, {}}, Value{"x", {}}}, {}};
  if (path == "epochs") return &kEpochs;
  if (path == "width") return &kWidth;
  if (path == "heads") return &kHeads;
  if (path == "optimizer.rate") return &kRate;
  if (path == "size") return &kNull;
  if (path == "sizes.auto") return &kAuto;
  if (path == "on") return &kTrue;
  if (path == "none") return &kNull;
  if (path == "list") return &kList;
  return nullptr;
}

bool kept(std::string_view condition) { return holds(condition, option); }

TEST(Rule, ComparesNumbersStringsBooleansAndNull) {
  for (const char* condition :
       {"width == 770", "width != 12", "heads <= 12", "heads < 13", "heads >= 12", "width > heads",
        "optimizer.rate == 0.25", "sizes.auto == 'auto'", "on == true", "none == null",
        "absent == null", "width != null", "on", "not false"})
    EXPECT_TRUE(kept(condition)) << condition;
  for (const char* condition :
       {"width == 12", "width != 770", "heads < 12", "heads > 12", "width <= heads",
        "width < heads", "heads >= 13", "sizes.auto == 'off'", "sizes.auto != 'auto'", "not on",
        "none != null", "list == null", "absent != null", "false"})
    EXPECT_FALSE(kept(condition)) << condition;
}

TEST(Rule, ComputesBeforeItCompares) {
  EXPECT_FALSE(kept("width % heads == 0"));
  EXPECT_TRUE(kept("width % heads == 2"));
  EXPECT_TRUE(kept("1 + 2 * 3 == 7"));
  EXPECT_TRUE(kept("(1 + 2) * 3 == 9"));
  EXPECT_TRUE(kept("9 - 3 - 2 == 4"));
  EXPECT_TRUE(kept("heads / 8 == 1.5"));
}

TEST(Rule, AndBindsTighterThanOr) {
  EXPECT_TRUE(kept("true or false and false"));
  EXPECT_FALSE(kept("(true or false) and false"));
  EXPECT_TRUE(kept("not false and true"));
  EXPECT_FALSE(kept("not (true or false)"));
}

TEST(Rule, UnknownValuesBreakNoRules) {
  for (const char* condition :
       {"sizes.auto % heads == 0", "absent < 5", "none >= 3", "width / 0 == 1", "list == list",
        "not (absent < 5)", "absent < 5 and on", "absent < 5 or false"})
    EXPECT_TRUE(kept(condition)) << condition;
  EXPECT_FALSE(kept("absent < 5 and false")) << "regardless of the first";
}

TEST(Rule, FunctionsAcceptOptionsThatAreNotNumbers) {
  EXPECT_TRUE(kept("size(list) == 3"));
  EXPECT_TRUE(kept("size(absent) == 0"));
  EXPECT_TRUE(kept("least(epochs) == 2.5"));
  for (const char* unknown : {"least(list) < 1", "least(absent) < 1", "least(width) < 1"})
    EXPECT_TRUE(kept(unknown)) << unknown;
  EXPECT_TRUE(kept("is_text(sizes.auto)"));
  EXPECT_FALSE(kept("is_text(list)"));
  EXPECT_FALSE(kept("is_text(absent)"));
}

TEST(Rule, MalformedConditionsAreRejected) {
  for (const char* text : {"", "width ==", "== 3", "(width", "width)", "width heads", "'auto",
                           "size", "size(", "size()", "and", "1 < 2 < 3", "width = 3", "$"})
    EXPECT_THROW(kept(text), std::invalid_argument) << text;
  EXPECT_THROW(kept(std::string(100'000, '(')), std::invalid_argument);
}

TEST(Rule, MessageContainsValues) {
  EXPECT_EQ(filled_in("{width} by {heads}, {sizes.auto}, {absent}.", option),
            "770 by 12, \"auto\", null.");
  EXPECT_EQ(filled_in("{open", option), "{open");
}

TEST(Rule, ListItemsMustDifferInAKey) {
  const auto named = [](const char* name) {
    return Value{Value::Map{{"name", {}, name ? Value{name, {}} : Value{nullptr, {}}}}, {}};
  };
  const auto differ = [](const Value& groups) {
    return holds("differ(groups.name)",
                 [&](std::string_view path) { return path == "groups" ? &groups : nullptr; });
  };
  EXPECT_TRUE(
      differ(Value{Value::List{named("a"), named("b"), named(nullptr), named(nullptr)}, {}}));
  EXPECT_FALSE(differ(Value{Value::List{named("a"), named("b"), named("a")}, {}}));
  EXPECT_TRUE(kept("differ(absent.name)"));
  EXPECT_THROW(kept("differ(list)"), std::invalid_argument);
}

}  // namespace
}  // namespace runner
