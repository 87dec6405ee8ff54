#include "runner/plan/byte_size.h"

#include <gtest/gtest.h>

namespace runner {
namespace {

TEST(ByteSize, ReadsWhatMemoryBudgetTakes) {
  EXPECT_EQ(byte_size("8GiB"), std::int64_t{8} << 30);
  EXPECT_EQ(byte_size("512MiB"), 512 << 20);
  EXPECT_EQ(byte_size("1.5GiB"), 3 << 29);
  EXPECT_EQ(byte_size("0.001MiB"), 1048);
  EXPECT_EQ(byte_size("0GiB"), 0);
  EXPECT_EQ(byte_size("999999999GiB"), std::int64_t{999999999} << 30);
}

TEST(ByteSize, RefusesAnythingElse) {
  for (const char* text : {"", "8", "GiB", "8GB", "8 GiB", "8gib", "-8GiB", "+8GiB", "8.GiB", ".5GiB", "1.2345GiB",
                           "1e3MiB", "1.-5GiB", "1234567890MiB", "8GiBGiB", "0x8GiB", "8GiB "})
    EXPECT_EQ(byte_size(text), std::nullopt) << text;
}

TEST(SizeText, HasTheUnitThatReadsBest) {
  EXPECT_EQ(size_text(0), "0 B");
  EXPECT_EQ(size_text(1023), "1023 B");
  EXPECT_EQ(size_text(1024), "1.0 KiB");
  EXPECT_EQ(size_text(100663296), "96.0 MiB");
  EXPECT_EQ(size_text(1299227607), "1.21 GiB");
  EXPECT_EQ(size_text(-2 << 20), "-2.0 MiB");
  EXPECT_EQ(size_text(std::int64_t{5} << 40), "5120.00 GiB");
}

TEST(SizeText, RoundsUpIntoTheNextUnit) {
  EXPECT_EQ(size_text((1 << 20) - 1), "1.0 MiB");
  EXPECT_EQ(size_text((1 << 30) - 1), "1.00 GiB");
}

}  // namespace
}  // namespace runner
