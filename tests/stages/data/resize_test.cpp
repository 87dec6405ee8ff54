#include "stages/data/weighted_sums.h"

#include <ostream>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/pictures.h"

namespace stages {
namespace {

constexpr std::array kBoth = {Interpolation::kBilinear, Interpolation::kBicubic};

Image part_of(const Image& image, const Box& box) {
  Image result(box.width, box.height);
  for (int y = 0; y < box.height; ++y)
    std::copy_n(image.row(box.top + y) + 3 * box.left, 3 * box.width, result.row(y));
  return result;
}

std::uint64_t checksum(const Image& image) {
  std::uint64_t sum = 0xCBF29CE484222325;
  for (const std::uint8_t byte : image.pixels) sum = (sum ^ byte) * 0x100000001B3;
  return sum;
}

struct Recorded {
  int width, height, new_width, new_height;
  std::uint64_t bilinear, bicubic;
};

void PrintTo(const Recorded& size, std::ostream* out) {
  *out << size.width << 'x' << size.height << " to " << size.new_width << 'x' << size.new_height;
}

// Checksums of Pillow 13.0.0's results for gradient(). The sizes cover both orders of the passes,
// both directions, single pixels, and sides that keep their length.
class PillowSizes : public testing::TestWithParam<Recorded> {};

Image gradient(int width, int height) {
  Image image(width, height);
  for (std::size_t i = 0; i < image.pixels.size(); ++i)
    image.pixels[i] = static_cast<std::uint8_t>(i * std::uint64_t{2654435761} >> 24);
  return image;
}

TEST_P(PillowSizes, GiveTheRecordedBytes) {
  const Recorded& recorded = GetParam();
  const Image image = gradient(recorded.width, recorded.height);
  EXPECT_EQ(
      checksum(resize(image, recorded.new_width, recorded.new_height, Interpolation::kBilinear)),
      recorded.bilinear);
  EXPECT_EQ(
      checksum(resize(image, recorded.new_width, recorded.new_height, Interpolation::kBicubic)),
      recorded.bicubic);
}

INSTANTIATE_TEST_SUITE_P(
    Resize, PillowSizes,
    testing::Values(Recorded{64, 48, 32, 24, 0x31F84CECEC85F655, 0xD8E7984150702FA5},
                    Recorded{48, 64, 33, 20, 0x27CFDB2D9071DB1D, 0x0E95BC2DAA12EC6B},
                    Recorded{20, 90, 19, 10, 0x2FA79C6A0751AFFC, 0xCEFAC409557C55FF},
                    Recorded{31, 17, 62, 40, 0x3FFCBEE52D0EBD73, 0xC3A8B42B69AB2A2E},
                    Recorded{31, 17, 11, 40, 0xA10EA9654D9D91D2, 0xCD52F08F0B794371},
                    Recorded{17, 31, 40, 11, 0x00C01E710871C009, 0x0E6968DECDED7823},
                    Recorded{1, 1, 5, 3, 0xF2D0B35172437D5D, 0xF2D0B35172437D5D},
                    Recorded{7, 1, 3, 4, 0x49E84C61CFFE28CD, 0x25566D570D708AB1},
                    Recorded{1, 9, 2, 4, 0x4340A9553FF3090F, 0x40705DD61927F3BD},
                    Recorded{13, 21, 13, 8, 0x4A6B0EE973F36AD2, 0x41E4515C2C6FCF70},
                    Recorded{21, 13, 8, 13, 0xA3DB5F11AB96447C, 0x8A906CEAA6550763},
                    Recorded{200, 150, 7, 5, 0x89D6D9BD57D50806, 0xBC5422C77E2F4152},
                    Recorded{5, 4, 101, 97, 0x1553F1AFC93D2EC3, 0xF9547250B6A38BE3},
                    Recorded{60, 120, 30, 59, 0xA19FE082FE2186D3, 0x75EF1930C7945AC5},
                    Recorded{60, 120, 30, 60, 0xACC06078D53DFA81, 0xCC530C659E805DAC}));

TEST(Resize, WindowEqualsTheSamePartOfTheWholeImage) {
  const Image image = picture(61, 47);
  const Box from{5, 3, 40, 41}, window{7, 11, 13, 9};
  for (const Interpolation mode : kBoth) {
    for (const auto& [width, height] :
         {std::pair{30, 25}, std::pair{90, 30}, std::pair{20, 80}, std::pair{40, 22}}) {
      const Image whole = resize(part_of(image, from), width, height, mode);
      EXPECT_EQ(resize(image, from, width, height, window, mode).pixels,
                part_of(whole, window).pixels)
          << width << "x" << height;
    }
  }
}

TEST(Resize, SameSizeIsACopy) {
  const Image image = picture(9, 7);
  for (const Interpolation mode : kBoth) EXPECT_EQ(resize(image, 9, 7, mode).pixels, image.pixels);
}

TEST(Resize, UniformColorIsKept) {
  Image image(37, 53);
  std::ranges::fill(image.pixels, std::uint8_t{201});
  for (const Interpolation mode : kBoth) {
    for (const std::uint8_t byte : resize(image, 11, 90, mode).pixels) ASSERT_EQ(byte, 201);
  }
}

TEST(Resize, WindowOfAHugeResultCostsOnlyTheWindow) {
  const Image image = picture(1, 100'000);
  const Image middle = resize(image, {0, 0, 1, 100'000}, 4096, 409'600'000,
                              {2000, 204'800'000, 16, 16}, Interpolation::kBicubic);
  EXPECT_EQ(middle.pixels.size(), 3u * 16 * 16);
  EXPECT_EQ(
      resize(image, {0, 0, 1, 100'000}, 64, 64, {0, 0, 64, 64}, Interpolation::kBicubic).height,
      64);
}

}  // namespace
}  // namespace stages
