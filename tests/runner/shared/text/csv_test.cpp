#include "runner/shared/text/csv.h"

#include <gtest/gtest.h>

namespace runner {
namespace {

TEST(Csv, PlainFieldsStayPlain) { EXPECT_EQ(csv_line({"a b", "", "1.5"}), "a b,,1.5\n"); }

TEST(Csv, CommasQuotesAndLineBreaksAreQuoted) {
  EXPECT_EQ(csv_line({"a,b", "say \"x\"", "a\nb", "a\rb"}),
            "\"a,b\",\"say \"\"x\"\"\",\"a\nb\",\"a\rb\"\n");
}

TEST(Csv, EmptyFirstFieldKeepsItsComma) { EXPECT_EQ(csv_line({"", "a"}), ",a\n"); }

TEST(Csv, NumbersReadBackUnchanged) {
  EXPECT_EQ(csv_number(0.1), "0.1");
  EXPECT_EQ(csv_number(1), "1");
  EXPECT_EQ(csv_number(0.30000000000000004), "0.30000000000000004");
}

}  // namespace
}  // namespace runner
