#include "runner/parent/config/yaml_reader.h"

#include <cmath>
#include <random>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/python_repr.h"

namespace runner {
namespace {

/// The value as JSON, or the diagnostics as printed.
std::string read(const std::string& text) {
  Sources sources;
  const auto result = read_yaml(sources.add("a.yaml", text));
  if (result) return to_json(*result).dump();
  std::ostringstream out;
  for (const Diagnostic& diagnostic : result.errors()) print(out, diagnostic);
  return out.str();
}

TEST(YamlReader, EmptyInputIsAnEmptyMapping) {
  EXPECT_EQ(read(""), "{}");
  EXPECT_EQ(read("# nothing\n"), "{}");
}

TEST(YamlReader, QuotedScalarsStayStrings) {
  EXPECT_EQ(read("a: '1'\nb: \"true\"\nc: |\n  2\nd: !!str 3\n"),
            R"({"a":"1","b":"true","c":"2\n","d":"3"})");
}

TEST(YamlReader, EveryNodeHasItsLocation) {
  Sources sources;
  const auto value = read_yaml(sources.add("a.yaml", "train:\n  epochs: 3\n  layers: [1, x]\n"));
  const Value& train = *value->find("train");
  EXPECT_EQ(train.where.line, 2);
  EXPECT_EQ(train.where.column, 3);
  const Entry& layers = (*train.map())[1];
  EXPECT_EQ(layers.key_where.line, 3);
  EXPECT_EQ(layers.key_where.column, 3);
  EXPECT_EQ(layers.value.where.column, 11);
  EXPECT_EQ((*layers.value.list())[1].where.column, 15);
}

TEST(YamlReader, AllDuplicateKeysAreReportedAtOnce) {
  EXPECT_EQ(read("a: 1\na: 2\nb: {c: 1, c: 2}\n"),
            "a.yaml:2:1: error[E0102]: duplicate key 'a'\n"
            "  2 | a: 2\n"
            "    | ^\n"
            "  help: remove one of the two\n"
            "  a.yaml:1:1: note: first written here\n"
            "a.yaml:3:11: error[E0102]: duplicate key 'c'\n"
            "  3 | b: {c: 1, c: 2}\n"
            "    |           ^\n"
            "  help: remove one of the two\n"
            "  a.yaml:3:5: note: first written here\n");
}

TEST(YamlReader, SecondDocumentIsRejected) {
  EXPECT_EQ(read("---\na: 1\n---\nb: 2\n"),
            "a.yaml:3:1: error[E0103]: a second document starts here\n"
            "  3 | ---\n"
            "    | ^\n"
            "  help: keep one recipe in a file\n");
}

TEST(YamlReader, UnknownTagIsRejected) {
  EXPECT_EQ(read("a: !python/object 1\n"),
            "a.yaml:1:4: error[E0104]: unknown tag '!python/object'\n"
            "  1 | a: !python/object 1\n"
            "    |    ^\n"
            "  help: remove the tag; !!str, !!int, !!float, !!bool and !!null are supported\n");
  EXPECT_THAT(read("a: !!set {x}\n"), testing::HasSubstr("error[E0104]"));
  EXPECT_THAT(read("a: !!binary aGk=\n"),
              testing::HasSubstr("error[E0104]: unknown tag '!!binary'"));
}

TEST(YamlReader, KeysKeepTheirType) {
  Sources sources;
  const auto value = read_yaml(
      sources.add("a.yaml", "1: a\n0x10: b\n1.5: c\ntrue: d\n'2': e\n99999999999999999999: f\n"));
  ASSERT_TRUE(value);
  EXPECT_EQ(python_repr(*value),
            "{1: 'a', 16: 'b', 1.5: 'c', True: 'd', '2': 'e', 99999999999999999999: 'f'}");
  EXPECT_TRUE(value->find("16"));
}

TEST(YamlReader, KeysWithTheSameTextAreDuplicates) {
  EXPECT_THAT(read("1: x\n'1': y\n"),
              testing::StartsWith("a.yaml:2:1: error[E0102]: duplicate key '1'\n"));
}

TEST(YamlReader, KeysThatAreNullOrContainersAreRejected) {
  EXPECT_EQ(read("null: x\n"),
            "a.yaml:1:1: error[E0105]: a key must be a name or a number, not null\n"
            "  1 | null: x\n"
            "    | ^\n"
            "  help: write it in quotes if it is a name\n");
  EXPECT_THAT(read("? [1, 2]\n: x\n"),
              testing::HasSubstr("a key must be a name or a number, not a list"));
}

TEST(YamlReader, ReadsAliasesAndMergeKeys) {
  EXPECT_EQ(read("a: &x {b: 1, c: 2}\nd: *x\n"), R"({"a":{"b":1,"c":2},"d":{"b":1,"c":2}})");
  EXPECT_EQ(read("a: &x {b: 1, c: 2}\nd: {c: 3, <<: *x}\n"),
            R"({"a":{"b":1,"c":2},"d":{"b":1,"c":3}})");
  EXPECT_EQ(read("a: &x {b: 1}\ne: &y {b: 2, f: 3}\nd: {<<: [*x, *y]}\n"),
            R"({"a":{"b":1},"e":{"b":2,"f":3},"d":{"b":1,"f":3}})");
  EXPECT_EQ(read("a: &x {r: 1}\ne: &y {q: 3}\nd: {<<: [*x, *y], z: 0}\n"),
            R"({"a":{"r":1},"e":{"q":3},"d":{"q":3,"r":1,"z":0}})");
  EXPECT_THAT(read("d: {<<: 3}\n"),
              testing::HasSubstr("'<<' takes a mapping or a list of mappings"));
  EXPECT_THAT(read("d: <<\n"), testing::HasSubstr("'<<' cannot be a value"));
}

TEST(YamlReader, AliasBombIsRejected) {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i) {
    const std::string last = "*a" + std::to_string(i - 1);
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + last;
    for (int k = 0; k < 9; ++k) text += ", " + last;
    text += "]\n";
  }
  EXPECT_THAT(read(text),
              testing::HasSubstr("error[E0106]: aliases expand to more than 10000 values"));
}

TEST(YamlReader, AliasesExpandToAtMostTenThousandValues) {
  const auto aliased = [](int count) {
    std::string text = "a: &a [";
    for (int i = 0; i < 98; ++i) text += "1,";
    text += "1]\nb: [";  // a hundred values, including the list itself
    for (int i = 0; i < count; ++i) text += "*a,";
    return text + "]\n";
  };
  EXPECT_THAT(read(aliased(100)), testing::StartsWith("{\"a\""));
  EXPECT_THAT(read(aliased(101)),
              testing::HasSubstr("error[E0106]: aliases expand to more than 10000 values"));
}

TEST(YamlReader, ValuesInAFileAreCounted) {
  const auto list = [](int count) {
    std::string text = "[";
    for (int i = 0; i < count; ++i) text += "1,";
    return text + "]";
  };
  EXPECT_THAT(read(list(99'999)), testing::StartsWith("[1,"));  // plus the list itself
  EXPECT_THAT(read(list(100'000)), testing::HasSubstr("the file contains more than 100000 values"));
}

TEST(YamlReader, AliasesOfALongStringAreBounded) {
  std::string text = "a: &a " + std::string(1u << 20, 'x') + "\n";
  for (int i = 0; i < 100; ++i) text += "b" + std::to_string(i) + ": *a\n";
  EXPECT_THAT(read(text),
              testing::HasSubstr("error[E0106]: aliases expand to more than 16 MiB of text"));
}

TEST(YamlReader, AliasInsideItsOwnValueIsRejected) {
  EXPECT_THAT(read("a: &a [*a]\n"),
              testing::HasSubstr("the alias is inside the value that it stands for"));
}

TEST(YamlReader, InvalidUtf8IsReportedWithItsByte) {
  EXPECT_THAT(read("a: 1\nb: x\xffy\n"),
              testing::StartsWith("a.yaml:2:5: error[E0107]: the text is not UTF-8\n"));
  EXPECT_THAT(read("a: \xc0\xaf\n"), testing::HasSubstr("a.yaml:1:4: error[E0107]"));
  EXPECT_THAT(read("a: \xed\xa0\x80\n"), testing::HasSubstr("a.yaml:1:4: error[E0107]"));
}

TEST(YamlReader, ControlCharacterDoesNotEndTheFile) {
  EXPECT_THAT(
      read("a: 1\n\x04"
           "b: 2\n"),
      testing::StartsWith("a.yaml:2:1: error[E0101]: the file contains a control character\n"));
  EXPECT_THAT(read(std::string("a: 1\0b", 6)), testing::HasSubstr("a control character"));
}

TEST(YamlReader, NestingIsBoundedWhereverItComesFrom) {
  const auto list = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_EQ(read(list(64)), list(64));
  EXPECT_THAT(
      read(list(65)),
      testing::StartsWith("a.yaml:1:65: error[E0108]: values are nested more than 64 levels deep"));
  for (const std::string unit : {"[", "{a: ", "- ", "? ", "[{", "- ? "}) {
    std::string text;
    while (text.size() < 1'000'000) text += unit;
    EXPECT_THAT(read(text), testing::HasSubstr("error[E0108]")) << unit;
  }
  std::string aliases = "a0: &a0 [[[[[[[[x]]]]]]]]\n";
  for (int i = 1; i < 10; ++i) {
    aliases += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [[[[[[[[*a" +
               std::to_string(i - 1) + "]]]]]]]]\n";
  }
  EXPECT_THAT(read(aliases), testing::HasSubstr("error[E0108]"));
}

TEST(YamlReader, IntegerBeyond64BitsKeepsItsDigits) {
  EXPECT_EQ(read("a: -9223372036854775808\n"), R"({"a":-9223372036854775808})");
  Sources sources;
  const auto value =
      read_yaml(sources.add("a.yaml",
                            "[9223372036854775808, -0x7FFFFFFFFFFFFFFFFF, "
                            "+1_000_000_000_000_000_000_000, 1000000000000000000000:30]"));
  ASSERT_TRUE(value);
  EXPECT_EQ(python_repr(*value),
            "[9223372036854775808, -2361183241434822606847, 1000000000000000000000, "
            "60000000000000000000030]");
  EXPECT_EQ((*value->list())[0].form, ScalarForm::kBigInteger);
}

TEST(YamlReader, IntegerWithTooManyDigitsIsRejected) {
  EXPECT_THAT(
      read("a: 1" + std::string(5000, '0')),
      testing::StartsWith("a.yaml:1:4: error[E0109]: the integer has more than 4300 digits"));
}

/// The warnings as printed.
std::string warnings(const std::string& text) {
  Sources sources;
  Diagnostics found;
  EXPECT_TRUE(read_yaml(sources.add("a.yaml", text), &found));
  std::ostringstream out;
  for (const Diagnostic& diagnostic : found) print(out, diagnostic);
  return out.str();
}

TEST(YamlReader, YamlOnlyBooleansCauseWarnings) {
  EXPECT_EQ(warnings("a: yes\nb: true\nc: 'no'\n"),
            "a.yaml:1:4: warning[E0111]: 'yes' without quotes is the boolean true\n"
            "  1 | a: yes\n"
            "    |    ^\n"
            "  help: write true if that is what you mean, else 'yes' in quotes\n");
  EXPECT_THAT(warnings("on: 1\n"), testing::HasSubstr("'on' without quotes is the boolean true"));
}

TEST(YamlReader, NumbersInUnusualBasesCauseWarnings) {
  EXPECT_THAT(warnings("a: 010\n"),
              testing::HasSubstr("'010' without quotes is an octal number: 8"));
  EXPECT_THAT(warnings("a: 1:30\n"),
              testing::HasSubstr("'1:30' without quotes is a number in base 60: 90"));
  EXPECT_THAT(warnings("a: 1:30.5\n"), testing::HasSubstr("is a number in base 60: 90.5"));
  EXPECT_EQ(warnings("a: [0, 07, 0x10, 0b1, 1_0, 0.5, 1e3, '010', 12:60, 08]\n"), "");
}

TEST(YamlReader, WarningsPerFileAreBounded) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "- yes\n";
  Sources sources;
  Diagnostics found;
  EXPECT_TRUE(read_yaml(sources.add("a.yaml", text), &found));
  EXPECT_EQ(found.size(), 100u);
}

TEST(YamlReader, SyntaxErrorsSuggestARemedy) {
  EXPECT_EQ(read("a: [${c}]\n"),
            "a.yaml:1:6: error[E0101]: cannot read the YAML: end of sequence flow not found\n"
            "  1 | a: [${c}]\n"
            "    |      ^\n"
            "  help: inside [...] and {...} an interpolation must be quoted: '${a.b}'\n");
  EXPECT_THAT(read("a: {b: ???}\n"), testing::HasSubstr("the mark ??? must be quoted"));
  EXPECT_THAT(read("a:\n\tb: 1\n"), testing::HasSubstr("indent with spaces, not with tabs"));
}

TEST(YamlReader, ErrorsPerFileAreBounded) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "a: x\n";
  Sources sources;
  EXPECT_EQ(read_yaml(sources.add("a.yaml", text)).errors().size(), 100u);
}

/// No input crashes or hangs the reader: a thousand mutations of a recipe, the same in every run.
TEST(YamlReader, SurvivesMutations) {
  const std::string recipe =
      "defaults: [{data: x}, _self_]\na: &a {b: 1, c: [1.5, 'x']}\nd: {<<: *a, e: \"\\u00e9\"}\nf: "
      "|\n  text\n? g\n: - "
      "1\n  - !!int 2\n";
  const std::string bytes = "[]{}:,-?&*!|>'\"%@`#\\ \n\t\r\x01\x04\xff\xc3<~";
  std::mt19937 random(7);
  for (int i = 0; i < 1000; ++i) {
    std::string text = recipe;
    for (int k = 0; k < 4; ++k) {
      const std::size_t at = random() % text.size();
      if (random() % 3 == 0) text.erase(at, random() % 5);
      else if (random() % 2) text.insert(at, 1, bytes[random() % bytes.size()]);
      else text[at] = bytes[random() % bytes.size()];
    }
    Sources sources;
    const auto result = read_yaml(sources.add("a.yaml", text));
    if (!result) EXPECT_FALSE(result.errors().empty());
  }
}

TEST(YamlReader, EscapesBeyondAsciiBecomeUtf8) {
  const SourceText source{"a.yaml", "a: \"x\\N\\_\\L\\P\\x85é\""};
  const auto read = read_yaml(source);
  ASSERT_TRUE(read);
  EXPECT_EQ(*read->find("a")->text(), "x\u0085\u00a0\u2028\u2029\u0085é");
}

}  // namespace
}  // namespace runner
