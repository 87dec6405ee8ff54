#include "stages/data/disc_crop.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace stages {
namespace {

/// A black image with a gray disc.
Image disc(int width, int height, int x, int y, int radius) {
  Image image(width, height);
  for (int row = 0; row < height; ++row)
    for (int column = 0; column < width; ++column)
      if ((row - y) * (row - y) + (column - x) * (column - x) <= radius * radius)
        for (int channel = 0; channel < 3; ++channel)
          image.pixels[static_cast<std::size_t>(3 * (row * width + column) + channel)] = 100;
  return image;
}

TEST(DiscCrop, IsTheBoundingBoxOfTheDisc) {
  const Image cropped = cropped_to_disc(disc(60, 40, 30, 18, 10), {});
  EXPECT_EQ(cropped.width, 21);
  EXPECT_EQ(cropped.height, 21);
  EXPECT_EQ(cropped.pixels[0], 0);
  EXPECT_EQ(cropped.pixels[3 * 10], 100) << "the disc touches the middle of each side";
}

TEST(DiscCrop, TruncatedDiscKeepsItsSides) {
  const Image cropped = cropped_to_disc(disc(60, 20, 30, 10, 15), {});
  EXPECT_EQ(cropped.width, 31);
  EXPECT_EQ(cropped.height, 20);
}

TEST(DiscCrop, SingleBrightPixelsDoNotEnlargeTheCrop) {
  Image image = disc(300, 200, 150, 100, 50);
  image.pixels[0] = 255;
  EXPECT_EQ(cropped_to_disc(image, {}).width, 99);
}

TEST(DiscCrop, DarkNoiseIsExcluded) {
  Image image = disc(60, 40, 30, 18, 10);
  for (std::uint8_t& value : image.pixels) value = std::max<std::uint8_t>(value, 1);
  EXPECT_EQ(cropped_to_disc(image, {}).width, 21);
}

TEST(DiscCrop, BlackImageStaysWhole) {
  const Image cropped = cropped_to_disc(Image(8, 4), {});
  EXPECT_EQ(cropped.width, 8);
  EXPECT_EQ(cropped.height, 4);
}

TEST(DiscCrop, UniformlyBrightImageStaysWhole) {
  Image image(8, 4);
  for (std::uint8_t& value : image.pixels) value = 200;
  EXPECT_EQ(cropped_to_disc(image, {}).width, 8);
}

}  // namespace
}  // namespace stages
