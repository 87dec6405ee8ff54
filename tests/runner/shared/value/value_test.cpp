#include "runner/shared/value/value.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace runner {
namespace {

TEST(Value, JsonIntegersBeyond63BitsKeepTheirDigits) {
  const auto read = [](const char* text) { return from_json(nlohmann::ordered_json::parse(text)); };
  EXPECT_EQ(describe(read("9223372036854775807")), "9223372036854775807");
  EXPECT_EQ(read("9223372036854775808").form, ScalarForm::kBigInteger);
  EXPECT_EQ(*read("12345678901234567890").text(), "12345678901234567890");
  EXPECT_EQ(describe(read("-9223372036854775808")), "-9223372036854775808");
}

}  // namespace
}  // namespace runner
