#include "runner/parent/config/yaml_writer.h"

#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "runner/parent/config/yaml_reader.h"

namespace runner {
namespace {

TEST(YamlWriter, WritesBlockStyleInTheOrderOfTheKeys) {
  Sources sources;
  const std::string text =
      "z: 1\na:\n  b: []\n  c: {}\n  d:\n  - 1\n  - e: f\n    g: null\n  - - true\n    - 0.5\n";
  EXPECT_EQ(write_yaml(*read_yaml(sources.add("a", text))), text);
}

TEST(YamlWriter, StringsThatLookLikeOtherTypesAreQuoted) {
  for (const char* text :
       {"1",   "true", "yes", "y",  "null", "",     "~", "1e3", "0x1F", "1:30", ".inf",
        "- a", "a: b", "#x",  " x", "x ",   "a #b", "'", "???", "[a]",  "<<",   "="}) {
    Sources sources;
    const Value value{Value::Map{{text, {}, {std::string(text), {}}}}, {}};
    const auto read = read_yaml(sources.add("a", write_yaml(value)));
    ASSERT_TRUE(read) << text << "\n" << write_yaml(value);
    EXPECT_TRUE(same_data(*read, value)) << write_yaml(value);
  }
}

TEST(YamlWriter, WritesNumbersAsYamlReadsThem) {
  const auto written = [](double number) { return write_yaml({number, {}}); };
  EXPECT_EQ(written(1e-5), "1.0e-05\n");
  EXPECT_EQ(written(1.0), "1.0\n");
  EXPECT_EQ(written(1e20), "1.0e+20\n");
  EXPECT_EQ(written(0.1), "0.1\n");
  EXPECT_EQ(written(-std::numeric_limits<double>::infinity()), "-.inf\n");
  EXPECT_EQ(written(std::numeric_limits<double>::quiet_NaN()), ".nan\n");
}

TEST(YamlWriter, KeysAndLargeIntegersKeepTheirType) {
  Sources sources;
  const std::string text =
      "1: 99999999999999999999\n1.0e-05: x\ntrue: w\n'2': z\n.inf: '99999999999999999999'\n";
  EXPECT_EQ(write_yaml(*read_yaml(sources.add("a", text))), text);
}

TEST(YamlWriter, LettersOutsideAsciiAreKept) {
  EXPECT_EQ(write_yaml({std::string("é日本😀"), {}}), "é日本😀\n");
  EXPECT_EQ(write_yaml({std::string("\u0081"), {}}), "\"\\x81\"\n");
}

TEST(YamlWriter, SecretsAreWrittenAsTheirInterpolation) {
  const Value value{Value::Map{{"token", {}, {std::string("hunter2"), {}, "${oc.env:TOKEN}"}}}, {}};
  EXPECT_EQ(write_yaml(value), "token: ${oc.env:TOKEN}\n");
}

std::string random_text(std::mt19937& random) {
  static const std::vector<std::string> pieces = {
      "a",      "B",      "1",    " ",    ":",    ": ",   "#", " #", "-", "'",  "\"",
      "\\",     "\n",     "\t",   "\r",   "{",    "}",    "[", "]",  ",", "&",  "*",
      "!",      "|",      ">",    "%",    "@",    "`",    "?", "~",  "é", "日", "\u2028",
      "\u0085", "\ufeff", "\x01", "\x7f", "${x}", "null", "=", "<<"};
  std::string text;
  for (auto size = random() % 6; size > 0; --size) text += pieces[random() % pieces.size()];
  return text;
}

Value random_value(std::mt19937& random, int depth) {
  switch (random() % (depth > 4 ? 5 : 8)) {
    case 0:
      return {nullptr, {}};
    case 1:
      return {random() % 2 == 0, {}};
    case 2:
      return {static_cast<std::int64_t>((static_cast<std::uint64_t>(random()) << 32) | random()),
              {}};
    case 3:
      return {std::ldexp(static_cast<double>(random()), static_cast<int>(random() % 400) - 200),
              {}};
    case 4:
      return {random_text(random), {}};
    case 5: {
      Value::List list;
      for (auto size = random() % 4; size > 0; --size)
        list.push_back(random_value(random, depth + 1));
      return {std::move(list), {}};
    }
    default: {
      Value map{Value::Map{}, {}};
      for (auto size = random() % 4; size > 0; --size) {
        const std::string key = random() % 50 ? random_text(random) : std::string(2000, 'k');
        if (!map.find(key)) map.map()->push_back({key, {}, random_value(random, depth + 1)});
      }
      return map;
    }
  }
}

TEST(YamlWriter, WrittenValuesReadBackUnchanged) {
  std::mt19937 random(11);
  for (int i = 0; i < 2000; ++i) {
    const Value value{Value::Map{{"root", {}, random_value(random, 0)}}, {}};
    const std::string text = write_yaml(value);
    Sources sources;
    const auto read = read_yaml(sources.add("a", text));
    ASSERT_TRUE(read) << text << "\n"
                      << read.errors()[0].message << " at " << read.errors()[0].where.line;
    ASSERT_TRUE(same_data(*read, value)) << text << "\n---\n" << write_yaml(*read);
    ASSERT_EQ(write_yaml(*read), text);
  }
}

}  // namespace
}  // namespace runner
