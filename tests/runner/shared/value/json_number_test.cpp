#include "runner/shared/value/json_fields.h"

#include <cmath>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace runner {
namespace {

TEST(JsonNumber, EveryNumberSurvivesTheRoundTrip) {
  for (const double value : std::initializer_list<double>{0, -1.5, 1e308, INFINITY, -INFINITY}) {
    EXPECT_EQ(number_from_json(number_json(value)), value);
  }
  EXPECT_TRUE(std::isnan(*number_from_json(number_json(NAN))));
  EXPECT_EQ(number_json(-INFINITY), "-inf");
  EXPECT_EQ(number_json(NAN), "nan");
}

TEST(JsonNumber, NonNumbersAreRejected) {
  for (const char* text : {R"("1")", R"("NaN")", R"("")", "null", "[]", "true"}) {
    EXPECT_EQ(number_from_json(nlohmann::ordered_json::parse(text)), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace runner
