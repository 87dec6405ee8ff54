#include "stages/data/image.h"

#include <gtest/gtest.h>

#include "tests/support/pictures.h"
#include "tests/support/refused.h"

namespace stages {
namespace {

/// Returns a file from tests/golden/webp: a WebP image written by Pillow, or the PNG of the pixels
/// that Pillow decodes from it (tests/golden/webp.py).
std::vector<std::uint8_t> golden(const std::string& name) {
  return file_bytes(std::filesystem::path(RETORT_SOURCE_DIR) / "tests/golden/webp" / name);
}

/// Returns a file that consists of an extended header with this size.
std::vector<std::uint8_t> extended_header(int width, int height) {
  std::vector<std::uint8_t> file = {'R', 'I', 'F', 'F', 22,  0,   0,  0, 'W', 'E',
                                    'B', 'P', 'V', 'P', '8', 'X', 10, 0, 0,   0};
  file.insert(file.end(), {0, 0, 0, 0});
  for (const int side : {width - 1, height - 1}) {
    for (int shift = 0; shift <= 16; shift += 8)
      file.push_back(static_cast<std::uint8_t>(side >> shift));
  }
  return file;
}

/// Returns a lossy file with another size in its header, which does not match its data.
std::vector<std::uint8_t> webp_with_size(std::vector<std::uint8_t> file, int width, int height) {
  for (const auto& [at, side] : {std::pair{26, width}, {28, height}}) {
    file[static_cast<std::size_t>(at)] = static_cast<std::uint8_t>(side);
    file[static_cast<std::size_t>(at) + 1] = static_cast<std::uint8_t>(side >> 8);
  }
  return file;
}

class WebpAsPillow : public testing::TestWithParam<const char*> {};

TEST_P(WebpAsPillow, EveryPixelMatchesPillow) {
  const Image image = decode_webp(golden(std::string(GetParam()) + ".webp"));
  const Image seen = decode_png(golden(std::string(GetParam()) + ".png"));
  EXPECT_EQ(image.width, seen.width);
  EXPECT_EQ(image.height, seen.height);
  EXPECT_TRUE(image.pixels == seen.pixels);
}
INSTANTIATE_TEST_SUITE_P(, WebpAsPillow,
                         testing::Values("lossy", "lossless", "lossy_transparent",
                                         "lossless_transparent", "turned"));

TEST(WebpReader, ImageIsRotatedByItsOrientation) {
  const auto file = golden("turned.webp");
  const ImageHeader header = read_image_header(file);
  EXPECT_EQ(header.orientation, 6);
  EXPECT_EQ(header.shown_width(), 9);
  EXPECT_EQ(header.shown_height(), 20);
  const Image stored = decode_webp(file);
  EXPECT_TRUE(decode_image(file).pixels == oriented(stored, 6).pixels);
  EXPECT_EQ(smallest_eighths(file, header, 1, 1), 8);
}

TEST(WebpReader, AnimationIsRejected) {
  EXPECT_REFUSED(image_faults(golden("animated.webp")), kUnsupportedImage, "", "animated");
}

TEST(WebpReader, TruncatedFileIsCorrupt) {
  for (const char* const name : {"lossy.webp", "lossless.webp", "lossy_transparent.webp"}) {
    const auto whole = golden(name);
    // The last byte may be padding.
    for (std::size_t size = 12; size + 1 < whole.size(); ++size) {
      auto file = whole;
      file.resize(size);
      EXPECT_REFUSED(image_faults(file), kCorruptImage, "", "is truncated")
          << name << " of " << size << " bytes";
    }
  }
}

TEST(WebpReader, HeaderWithTooManyPixelsIsRejected) {
  EXPECT_REFUSED(image_faults(webp_with_size(golden("lossy.webp"), 16'000, 12'000)), kImageTooLarge,
                 "", "16000 x 12000", "178 million");
  EXPECT_FALSE(image_faults(extended_header(1 << 24, 1 << 24)).empty());
}

TEST(WebpReader, DamagedBytesOnlyThrow) {
  for (const char* const name :
       {"lossy.webp", "lossless.webp", "lossy_transparent.webp", "turned.webp"}) {
    EXPECT_GT(damaged_and_refused(golden(name), 13, 1000), 300) << name;
  }
}

}  // namespace
}  // namespace stages
