#include "runner/shared/text/units.h"

#include <gtest/gtest.h>

namespace runner {
namespace {

TEST(Bytes, UnitsShowThreeDigits) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(999), "999 B");
  EXPECT_EQ(bytes_text(1000), "1.0 KiB");
  EXPECT_EQ(bytes_text(512 << 20), "512 MiB");
  EXPECT_EQ(bytes_text(std::int64_t{3} << 29), "1.5 GiB");
  EXPECT_EQ(bytes_text(std::int64_t{140} << 30), "140 GiB");
}

TEST(Bytes, SizesAreRead) {
  EXPECT_EQ(bytes_from("512MiB"), 512 << 20);
  EXPECT_EQ(bytes_from("8GiB"), std::int64_t{8} << 30);
  EXPECT_EQ(bytes_from("1.5GiB"), std::int64_t{3} << 29);
  EXPECT_EQ(bytes_from("0.001MiB"), 1048);
  EXPECT_EQ(bytes_from("0GiB"), 0);
  EXPECT_EQ(bytes_from("8GB"), 8'000'000'000);
  EXPECT_EQ(bytes_from("0.5MB"), 500'000);
  EXPECT_EQ(bytes_from("999999999GiB"), std::int64_t{999999999} << 30);
}

TEST(Bytes, InvalidStringsAreNotSizes) {
  for (const char* text : {"", "8", "GiB", "8 GiB", "8G", "8gb", "8KB", "8gib", "-1GiB", "+1GiB",
                           "1e3GiB", "0x1GiB", "nanGiB", "infGiB", "1.5.2GiB", "99999999999GiB"})
    EXPECT_EQ(bytes_from(text), std::nullopt) << text;
}

TEST(Bytes, SizesAreReadStrictly) {
  for (const char* text :
       {"", "8", "GiB", "GB", "8 GB", "8 GiB", "8gib", "-8GiB", "+8GiB", "8.GiB", ".5GiB",
        "1.2345GiB", "1e3MiB", "1.-5GiB", "1234567890MiB", "8GiBGiB", "0x8GiB", "8GiB "})
    EXPECT_EQ(bytes_from(text), std::nullopt) << text;
}

TEST(SizeText, UsesTheMostReadableUnit) {
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
