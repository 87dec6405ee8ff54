#include "runner/shared/weights/strict_json.h"

#include <stdexcept>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace runner {
namespace {

/// The reason why `text` is rejected as JSON of at most three levels.
std::string refusal_of_json(const std::string& text) {
  try {
    parse_strict_json(text, 3, "its header");
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "it was read";
}

TEST(StrictJson, TooDeepNestingIsRejected) {
  const std::string deep = "its header is nested too deeply";
  EXPECT_EQ(refusal_of_json("[[[1]]]"), "it was read");
  EXPECT_EQ(refusal_of_json(R"([{"a": [1]}, [[2], [3]], {"b": {"c": 4}}])"), "it was read");
  EXPECT_EQ(refusal_of_json("[[[[1]]]]"), deep);
  EXPECT_EQ(refusal_of_json(R"({"a": {"b": {"c": {}}}})"), deep);
  EXPECT_EQ(refusal_of_json(R"([1, [[{"a": 1}]]])"), deep);
}

TEST(StrictJson, DuplicateNameIsRejected) {
  EXPECT_EQ(refusal_of_json(R"([{"a": 1}, {"a": {"a": 2}}])"), "it was read");
  EXPECT_EQ(refusal_of_json(R"({"a": {"b": 1, "c": 2, "b": 3}})"), "the name 'b' appears twice");
}

TEST(StrictJson, InvalidJsonIsRejected) {
  using namespace std::string_literals;
  for (const std::string& text : {""s, "{"s, "[1] 2"s, "{}\0"s, "[1e999]"s, "nan"s})
    EXPECT_EQ(refusal_of_json(text), "its header is not JSON") << text;
}

}  // namespace
}  // namespace runner
