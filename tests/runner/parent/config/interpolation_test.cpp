#include "runner/parent/config/interpolation.h"

#include <gmock/gmock.h>

#include "runner/parent/config/yaml_reader.h"
#include "runner/parent/config/yaml_writer.h"

namespace runner {
namespace {

constexpr int kMany = 45'000;  // close to the limit of a file

std::string many(const std::string& first, const std::string& start, int step) {
  std::string text = first;
  for (int i = 1; i < kMany; ++i)
    text += "k" + std::to_string(i) + ": " + start + (step ? std::to_string(i + step) : "") + "}\n";
  return text;
}

struct Outcome {
  Value value;
  Diagnostics found;
};

class Interpolations : public testing::Test {
 protected:
  Outcome resolve(const std::string& text) {
    Outcome outcome;
    const auto read = read_yaml(sources_.add("a.yaml", text));
    if (!read) return {{}, read.errors()};
    const Environment environment = [this](const std::string&) { return variable_; };
    outcome.value = resolve_interpolations(*read, {kWithoutSchema, environment, {}}, outcome.found);
    return outcome;
  }
  ErrorCode first_error(const std::string& text) {
    const Outcome outcome = resolve(text);
    return outcome.found.empty() ? ErrorCode{} : outcome.found.front().code;
  }

  Sources sources_;
  std::optional<std::string> variable_;
};

TEST_F(Interpolations, ManyReferencesToALargeMappingTakeLinearTime) {
  const Outcome outcome = resolve(many("k0: 7\n", "${k", -1));
  EXPECT_TRUE(outcome.found.empty());
  EXPECT_TRUE(
      same_data(*outcome.value.find("k" + std::to_string(kMany - 1)), Value{std::int64_t{7}, {}}));
}

TEST_F(Interpolations, AllUnknownKeysAreReportedAndSomeGetSuggestions) {
  const Outcome outcome = resolve(many("k0: 7\n", "${q", 1));
  ASSERT_EQ(outcome.found.size(), kMany - 1);
  EXPECT_FALSE(outcome.found.front().help.empty());
  EXPECT_TRUE(outcome.found.back().help.empty());
}

TEST_F(Interpolations, ChainsAreBounded) {
  EXPECT_EQ(first_error(many("k0: 1\n", "${k", 1)), ErrorCode::kNestingTooDeep);
}

TEST_F(Interpolations, ChainsDeeperThanTwoHundredAreRejected) {
  const auto chain = [](int length) {
    std::string text;
    for (int i = 0; i < length; ++i)
      text += "k" + std::to_string(i) + ": ${k" + std::to_string(i + 1) + "}\n";
    return text + "k" + std::to_string(length) + ": 1\n";
  };
  EXPECT_EQ(first_error(chain(190)), ErrorCode{});
  EXPECT_EQ(first_error(chain(210)), ErrorCode::kNestingTooDeep);
}

TEST_F(Interpolations, PartOfAnInterpolatedMappingIsCopiedAlone) {
  std::string text = "big: [";
  for (int i = 0; i < 20'000; ++i) text += "1,";
  text += "1]\nsame: ${big}\n";
  for (int i = 0; i < 10'000; ++i) text += "k" + std::to_string(i) + ": ${same.5}\n";
  EXPECT_TRUE(resolve(text).found.empty());
}

TEST_F(Interpolations, LongStringsAreBounded) {
  std::string text = "big: " + std::string(500'000, 'x') + "\n";
  for (int i = 0; i < 10'000; ++i) text += "k" + std::to_string(i) + ": ${big}\n";
  EXPECT_EQ(first_error(text), ErrorCode::kAliasBomb);
  EXPECT_EQ(first_error("a: " + std::string(300'000, 'x') + "\nb: ${a}${a}${a}${a}\n"),
            ErrorCode::kAliasBomb);
}

TEST_F(Interpolations, CopiesAreCounted) {
  std::string text = "big: [";
  for (int i = 0; i < 999; ++i) text += "1,";
  text += "1]\n";
  const auto copies = [&](int count) {
    std::string result = text;
    for (int i = 0; i < count; ++i) result += "k" + std::to_string(i) + ": ${big}\n";
    return result;
  };
  EXPECT_EQ(first_error(copies(40)), ErrorCode{});
  EXPECT_EQ(first_error(copies(110)), ErrorCode::kAliasBomb);
}

TEST_F(Interpolations, SecretsCannotMultiplyALongString) {
  variable_ = "x";
  std::string list = "[";
  for (int i = 0; i < 40'000; ++i) list += "1,";
  EXPECT_EQ(first_error("a: '${oc.select:nope,[" + list + "1]," + std::string(300'000, 'x') +
                        ",${oc.env:A_KEY}]}'\n"),
            ErrorCode::kAliasBomb);
}

TEST_F(Interpolations, RecordedResolutionResolvesToItself) {
  const std::string text =
      "y: 5\na: \\${y}\nb: \\\\${y}\nc: 'x\\\\\\${y}'\nd: ${item.x}\ne: '\\${y} \\\\\\${y} "
      "${item.x}'\n";
  const Value once = resolve(text).value;
  EXPECT_EQ(*once.find("c")->text(), "x\\${y}");
  const Value twice = resolve(write_yaml(as_unresolved(once))).value;
  EXPECT_EQ(write_yaml(twice), write_yaml(once));
}

TEST_F(Interpolations, AliasesAreRecordedAsWritten) {
  const Value once =
      resolve("vars: {a: 2}\naliases: {few: \"train.ways=${vars.a}\"}\nb: '\\${vars.a}'\n").value;
  const std::string written = write_yaml(as_unresolved(once));
  EXPECT_THAT(written, testing::HasSubstr("train.ways=${vars.a}"));
  EXPECT_EQ(write_yaml(as_unresolved(resolve(written).value)), written);
}

TEST_F(Interpolations, ValuesNextToAnItemAreNotResolvedAgain) {
  variable_ = "${y}";
  const std::string text = "y: 5\na: ${oc.env:A}-${item.x}\nb: '${c}\\${y}'\nc: ${item.x}\n";
  const Value once = resolve(text).value;
  EXPECT_EQ(*once.find("a")->text(), "\\${y}-${item.x}");
  EXPECT_EQ(*once.find("b")->text(), "${item.x}\\${y}");
}

TEST_F(Interpolations, MutuallyDecodedStringsTerminate) {
  variable_ = "[${oc.decode:${oc.env:A}},${oc.decode:${oc.env:A}}]";
  EXPECT_EQ(first_error("a: ${oc.decode:${oc.env:A}}"), ErrorCode::kNestingTooDeep);
  variable_ = "{a: '${oc.create:${oc.env:A}}', b: '${oc.create:${oc.env:A}}'}";
  EXPECT_EQ(first_error("a: ${oc.create:${oc.env:A}}"), ErrorCode::kNestingTooDeep);
}

TEST_F(Interpolations, NestingIsBounded) {
  const auto nested = [](int depth) {
    std::string text;
    for (int i = 0; i < depth; ++i) text += "${oc.select:";
    text += "nope";
    for (int i = 0; i < depth; ++i) text += ",x}";
    return "a: " + text + "\n";
  };
  EXPECT_EQ(first_error(nested(30)), ErrorCode{});
  EXPECT_EQ(first_error(nested(300)), ErrorCode::kInterpolationSyntax);
  EXPECT_EQ(first_error("a: ${oc.decode:" + std::string(500, '[') + "}"),
            ErrorCode::kInterpolationSyntax);
}

}  // namespace
}  // namespace runner
