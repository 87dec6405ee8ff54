#include "stages/data/image.h"

#include <gtest/gtest.h>

namespace stages {
namespace {

bool is_allowed(std::int64_t width, std::int64_t height) {
  try {
    check_size(width, height);
    return true;
  } catch (const ImageError&) {
    return false;
  }
}

TEST(ImageSize, IsAtMost178MillionPixels) {
  EXPECT_TRUE(is_allowed(17'800, 10'000));
  EXPECT_FALSE(is_allowed(17'800, 10'001));
  EXPECT_FALSE(is_allowed(17'801, 10'000));
  EXPECT_TRUE(is_allowed(1'000'000, 178));
  EXPECT_FALSE(is_allowed(1'000'001, 1));
  EXPECT_FALSE(is_allowed(1, 1'000'001));
  EXPECT_FALSE(is_allowed(1'000'000, 1'000'000));
  EXPECT_FALSE(is_allowed(0, 1));
  EXPECT_FALSE(is_allowed(1, -1));
}

TEST(Image, PixelsBegin16BytesPastAMultipleOf32) {
  for (int width = 1; width < 100; ++width) {
    const auto address = reinterpret_cast<std::uintptr_t>(Image::unset(width, width).pixels.data());
    EXPECT_EQ(address % 32, 16U) << width;
  }
}

}  // namespace
}  // namespace stages
