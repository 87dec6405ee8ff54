#include "runner/shared/text/finite_number.h"

#include <gtest/gtest.h>

namespace runner {
namespace {

TEST(FiniteNumber, MustSpanTheWholeString) {
  EXPECT_EQ(finite_number("1e-3"), 1e-3);
  EXPECT_EQ(finite_number("-2"), -2);
  for (const char* text : {"", " 1", "1 ", "1x", "+1", "nan", "inf", "-inf", "1e999", "1,5"})
    EXPECT_EQ(finite_number(text), std::nullopt) << text;
}

}  // namespace
}  // namespace runner
