#include "runner/shared/value/json_fields.h"

#include <limits>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace runner {
namespace {

/// How recipes were serialized before sorted_json() existed: records contain digests of this text.
std::string by_library(const Value& value) { return nlohmann::json(to_json(value)).dump(); }

TEST(SortedJson, EqualsTheLibrarysOutputWithSortedKeys) {
  const auto json = nlohmann::ordered_json::parse(
      R"({"b": {"z": null, "a": [], "é": {}}, "a\n\"\\": "t\u0001\u007f/é😀",
      "B": [true, false, -1, 9223372036854775807, 0.0, -0.0, 1.0, 1e-5, 1e22, 0.1, 123456789.125], "": [[1], {"x": 2}]})");
  const Value value = from_json(json);
  EXPECT_EQ(sorted_json(value), by_library(value));
  EXPECT_TRUE(sorted_json(value).starts_with(R"({"":[[1],{"x":2}],"B":[true,false,-1,)"))
      << sorted_json(value);
}

TEST(SortedJson, HidesSecretsAndNonFiniteNumbers) {
  using Limits = std::numeric_limits<double>;
  Value value{Value::Map{{"token", {}, {"abc", {}, "***"}},
                         {"hidden", {}, {Value::Map{{"a", {}, {"abc", {}}}}, {}, "\"é"}}},
              {}};
  for (const double number : {Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity()})
    value.map()->push_back({std::to_string(number), {}, {number, {}}});
  EXPECT_EQ(sorted_json(value), by_library(value));
  EXPECT_EQ(sorted_json(value).find("abc"), std::string::npos);
}

}  // namespace
}  // namespace runner
