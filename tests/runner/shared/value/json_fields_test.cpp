#include "runner/shared/value/json_fields.h"

#include <cmath>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace runner {
namespace {

using nlohmann::json;

std::string refusal(const json& object, void (*read)(const JsonFields<json>& fields)) {
  try {
    read(JsonFields(object, "a thing"));
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "read";
}

TEST(JsonFields, EachFieldIsReadByItsType) {
  const json object = {{"text", "a"},
                       {"flag", true},
                       {"integer", -3},
                       {"number", 0.5},
                       {"endless", "-inf"},
                       {"list", {1}},
                       {"object", json::object()},
                       {"seed", ~std::uint64_t{0}}};
  const JsonFields fields(object, "a thing");
  EXPECT_EQ(fields.text("text"), "a");
  EXPECT_TRUE(fields.flag("flag"));
  EXPECT_EQ(fields.integer("integer"), -3);
  EXPECT_EQ(fields.number("number"), 0.5);
  EXPECT_EQ(fields.number("integer"), -3);
  EXPECT_EQ(fields.number("endless"), -INFINITY);
  EXPECT_EQ(fields.list("list"), json({1}));
  EXPECT_EQ(fields.object("object"), json::object());
  EXPECT_EQ(fields.seed("seed"), ~std::uint64_t{0});
}

TEST(JsonFields, WrongTypesAreRejected) {
  EXPECT_EQ(refusal(json::array(), [](const auto&) {}), "a thing is not a JSON object");
  EXPECT_EQ(refusal(json::object(), [](const auto& fields) { fields.at("a"); }),
            "a thing has no 'a'");
  EXPECT_EQ(refusal({{"a", 1}}, [](const auto& fields) { fields.text("a"); }),
            "a thing has a 'a' that is not a string");
  EXPECT_EQ(refusal({{"a", 1}}, [](const auto& fields) { fields.flag("a"); }),
            "a thing has a 'a' that is not a boolean");
  EXPECT_EQ(refusal({{"a", 1.5}}, [](const auto& fields) { fields.integer("a"); }),
            "a thing has a 'a' that is not an integer");
  EXPECT_EQ(
      refusal({{"a", std::uint64_t{1} << 63}}, [](const auto& fields) { fields.integer("a"); }),
      "a thing has a 'a' that is not an integer");
  EXPECT_EQ(refusal({{"a", -1}}, [](const auto& fields) { fields.count("a"); }),
            "a thing has a 'a' that is not a count");
  EXPECT_EQ(refusal({{"a", std::uint64_t{1} << 63}}, [](const auto& fields) { fields.count("a"); }),
            "a thing has a 'a' that is not a count");
  EXPECT_EQ(refusal({{"a", -1}}, [](const auto& fields) { fields.seed("a"); }),
            "a thing has a 'a' that is not a seed");
  EXPECT_EQ(refusal({{"a", "1"}}, [](const auto& fields) { fields.number("a"); }),
            "a thing has a 'a' that is not a number");
  EXPECT_EQ(refusal({{"a", json::object()}}, [](const auto& fields) { fields.list("a"); }),
            "a thing has a 'a' that is not a list");
  EXPECT_EQ(refusal({{"a", json::array()}}, [](const auto& fields) { fields.object("a"); }),
            "a thing has a 'a' that is not an object");
}

TEST(JsonFields, UnknownMemberIsRejectedIfAllAreListed) {
  const json object = {{"a", {"x", "y"}}, {"b", 1}};
  const JsonFields fields(object, "a thing");
  EXPECT_NO_THROW(fields.only({"b", "a", "c"}));
  EXPECT_EQ(refusal(object, [](const auto& given) { given.only({"a"}); }),
            "a thing has an unknown 'b'");
}

TEST(JsonFields, ListsHoldOnlyStringsOrOnlyIntegers) {
  const nlohmann::json json = {{"words", {"a", "b"}}, {"sizes", {1, -2}}, {"mixed", {1, "a"}}};
  const JsonFields fields(json, "it");
  EXPECT_TRUE(fields.has("words"));
  EXPECT_FALSE(fields.has("other"));
  EXPECT_EQ(fields.texts("words"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(fields.integers("sizes"), (std::vector<std::int64_t>{1, -2}));
  EXPECT_THROW(fields.texts("mixed"), std::runtime_error);
  EXPECT_THROW(fields.integers("mixed"), std::runtime_error);
}

}  // namespace
}  // namespace runner
