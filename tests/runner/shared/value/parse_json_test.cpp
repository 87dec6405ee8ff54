#include "runner/shared/value/parse_json.h"

#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

std::string nested(std::size_t depth, const std::string& open = "[",
                   const std::string& close = "]") {
  std::string text;
  for (std::size_t i = 0; i < depth; ++i) text += open;
  text += "1";
  for (std::size_t i = 0; i < depth; ++i) text += close;
  return text;
}

TEST(ParseJson, ReadsValidJson) {
  EXPECT_EQ(parse_json(R"({"b": [1, "]}"], "a": null})").dump(), R"({"b":[1,"]}"],"a":null})");
  EXPECT_EQ(parse_json<nlohmann::json>(R"({"b": 1, "a": 2})").dump(), R"({"a":2,"b":1})");
  std::istringstream file(R"({"a": 1})");
  EXPECT_EQ(parse_json(file)["a"], 1);
}

TEST(ParseJson, DiscardsInvalidJson) {
  for (const std::string_view text :
       {std::string_view(), std::string_view("{"), std::string_view("[1]\0", 4),
        std::string_view("\xff"), std::string_view("1e999"), std::string_view("{} {}")})
    EXPECT_TRUE(parse_json(text).is_discarded()) << text;
}

TEST(ParseJson, DiscardsTooDeeplyNestedJson) {
  EXPECT_FALSE(parse_json(nested(256)).is_discarded());
  EXPECT_TRUE(parse_json(nested(257)).is_discarded());
  EXPECT_FALSE(parse_json(nested(256, "{\"a\":", "}")).is_discarded());
  for (const std::size_t depth : {std::size_t{257}, std::size_t{1'000'000}})
    EXPECT_TRUE(parse_json(nested(depth, "{\"a\\\"]\":", "}")).is_discarded());
  EXPECT_TRUE(parse_json(std::string(1'000'000, '[')).is_discarded());
}

TEST(ParseJson, DiscardsAFolder) {
  const TemporaryFolder folder;
  std::ifstream file(folder.path());
  EXPECT_TRUE(parse_json(file).is_discarded());
}

TEST(NestsDeeper, CountsBracketsOutsideStrings) {
  EXPECT_FALSE(nests_deeper(R"(["[[", "\"[[", {"[[[": []}])", 3));
  EXPECT_TRUE(nests_deeper(R"(["[[", "\"[[", {"[[[": []}])", 2));
  EXPECT_FALSE(nests_deeper("[[]], [[]], ]]] [[", 2));
  EXPECT_FALSE(nests_deeper("\"[[", 0));
  EXPECT_FALSE(nests_deeper("\"\\", 0));
}

}  // namespace
}  // namespace runner
