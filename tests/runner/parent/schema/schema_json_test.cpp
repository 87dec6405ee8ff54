#include "runner/parent/schema/schema_json.h"

#include <string>

#include <gtest/gtest.h>

namespace runner {
namespace {

using Json = SchemaReader::Json;

std::string problem(const std::string& text) { return read_schema_json(text).problem; }

TEST(SchemaJson, ValuesMatchThoseReadByTheLibrary) {
  const std::string text =
      " [\"a\\u00e9\\uD83D\\uDE00\\\"\\\\\\/\\b\\f\\n\\r\\t é\", 0, -0, -12, 1.5e+3, 2E-2, "
      "0.5,\r\n\t"
      "18446744073709551615, 18446744073709551616, -9223372036854775809, true, false, null, "
      "{}, [], {\"b\": [1, {}], \"a\": {\"\": \"\"}}] ";
  const SchemaJson read = read_schema_json(text);
  EXPECT_EQ(read.problem, "");
  const Json expected = Json::parse(text);
  EXPECT_EQ(read.root, expected);
  EXPECT_EQ(read.root.dump(), expected.dump());
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(read.root[i].type(), expected[i].type()) << expected[i];
}

TEST(SchemaJson, MistakeIsReportedWithItsLocation) {
  EXPECT_EQ(problem(""), "parse error at line 1, column 1: expected a value");
  EXPECT_EQ(problem("{\"a\": 1,\n  \"b\" 2}"), "parse error at line 2, column 7: ':' is expected");
  EXPECT_EQ(problem("{\"a\": 1 \"b\": 2}"), "parse error at line 1, column 9: ',' is expected");
  EXPECT_EQ(problem("{a: 1}"), "parse error at line 1, column 2: '\"' is expected");
  EXPECT_EQ(problem("{\"a\": 1, \"a\": 2}"),
            "parse error at line 1, column 10: key 'a' appears twice");
  EXPECT_EQ(problem("[1, 2,]"), "parse error at line 1, column 7: expected a value");
  EXPECT_EQ(problem("[1"), "parse error at line 1, column 3: ',' is expected");
  EXPECT_EQ(problem("[01]"), "parse error at line 1, column 3: ',' is expected");
  EXPECT_EQ(problem("[1] 2"), "parse error at line 1, column 5: expected the end");
  EXPECT_EQ(problem("tru"), "parse error at line 1, column 1: expected a value");
}

TEST(SchemaJson, MalformedNumberIsRejected) {
  EXPECT_EQ(problem("-"), "parse error at line 1, column 2: expected a digit");
  EXPECT_EQ(problem("1."), "parse error at line 1, column 3: expected a digit");
  EXPECT_EQ(problem("1e+"), "parse error at line 1, column 4: expected a digit");
  EXPECT_EQ(problem("[1e999]"), "parse error at line 1, column 2: the number is out of range");
}

TEST(SchemaJson, MalformedStringIsRejected) {
  EXPECT_EQ(problem("\"a"), "parse error at line 1, column 3: a string is not closed");
  EXPECT_EQ(problem("\"a\n\""),
            "parse error at line 1, column 3: a control character is written \\u00..");
  EXPECT_EQ(problem("\"\\x\""),
            "parse error at line 1, column 3: '\\' cannot escape this character");
  EXPECT_EQ(problem("\"\\u12g4\""),
            "parse error at line 1, column 4: \\u must be followed by four hexadecimal digits");
  EXPECT_EQ(problem("\"\\u-123\""),
            "parse error at line 1, column 4: \\u must be followed by four hexadecimal digits");
  EXPECT_EQ(problem("\"\\ud800\""), "parse error at line 1, column 8: half of a surrogate pair");
  EXPECT_EQ(problem("\"\\ud800\\u0041\""),
            "parse error at line 1, column 14: half of a surrogate pair");
  EXPECT_EQ(problem("\"\\udc00\\ud800\""),
            "parse error at line 1, column 8: half of a surrogate pair");
  EXPECT_EQ(problem("\n\"\xff\""), "parse error at line 2, column 2: this is not UTF-8");
}

TEST(SchemaJson, TooDeeplyNestedTextIsRejected) {
  EXPECT_EQ(problem(std::string(1000, '[')),
            "parse error at line 1, column 1001: expected a value");
  EXPECT_EQ(problem(std::string(100000, '[')),
            "parse error at line 1, column 1002: this is nested too deeply");
}

}  // namespace
}  // namespace runner
