#include "stages/data/image.h"

#include <gtest/gtest.h>

#include "tests/support/pictures.h"

namespace stages {
namespace {

/// Files that Pillow has written, and as PNG what it sees in them (tests/golden/webp.py).
std::vector<std::uint8_t> golden(const std::string& name) {
  return file_bytes(std::filesystem::path(RETORT_SOURCE_DIR) / "tests/golden/webp" / name);
}

/// "code: cause" of what decoding throws; empty when it does not.
std::string failure(Bytes file) {
  try {
    decode_image(file);
    return "";
  } catch (const ImageError& error) {
    return runner::name(error.code) + ": " + error.what();
  }
}

/// A file of one extended header that says this size.
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

/// A lossy file's header with another size; the data after it is not that of so many pixels.
std::vector<std::uint8_t> with_size(std::vector<std::uint8_t> file, int width, int height) {
  for (const auto& [at, side] : {std::pair{26, width}, {28, height}}) {
    file[static_cast<std::size_t>(at)] = static_cast<std::uint8_t>(side);
    file[static_cast<std::size_t>(at) + 1] = static_cast<std::uint8_t>(side >> 8);
  }
  return file;
}

class WebpAsPillow : public testing::TestWithParam<const char*> {};

TEST_P(WebpAsPillow, EveryPixelIsWhatPillowSees) {
  const Image image = decode_webp(golden(std::string(GetParam()) + ".webp"));
  const Image seen = decode_png(golden(std::string(GetParam()) + ".png"));
  EXPECT_EQ(image.width, seen.width);
  EXPECT_EQ(image.height, seen.height);
  EXPECT_TRUE(image.pixels == seen.pixels);
}
INSTANTIATE_TEST_SUITE_P(, WebpAsPillow,
                         testing::Values("lossy", "lossless", "lossy_transparent",
                                         "lossless_transparent", "turned"));

TEST(WebpReader, IsShownAsTheCameraWasHeld) {
  const auto file = golden("turned.webp");
  const ImageHeader header = read_image_header(file);
  EXPECT_EQ(header.orientation, 6);
  EXPECT_EQ(header.shown_width(), 9);
  EXPECT_EQ(header.shown_height(), 20);
  const Image stored = decode_webp(file);
  EXPECT_TRUE(decode_image(file).pixels == oriented(stored, 6).pixels);
  EXPECT_EQ(smallest_eighths(file, header, 1, 1), 8);
}

TEST(WebpReader, AnimationIsRefused) {
  EXPECT_EQ(failure(golden("animated.webp")),
            "E0609: it is an animated WebP, which is not supported");
}

TEST(WebpReader, CutOffFileIsCorrupt) {
  for (const char* const name : {"lossy.webp", "lossless.webp", "lossy_transparent.webp"}) {
    const auto whole = golden(name);
    // The last byte may be padding.
    for (std::size_t size = 12; size + 1 < whole.size(); ++size) {
      auto file = whole;
      file.resize(size);
      EXPECT_EQ(failure(file), "E0604: the file ends too early")
          << name << " of " << size << " bytes";
    }
  }
}

TEST(WebpReader, TooManyPixelsAreRefusedFromTheHeader) {
  EXPECT_EQ(failure(with_size(golden("lossy.webp"), 16'000, 12'000)),
            "E0605: it has 16000 x 12000 pixels, more than 178 million");
  EXPECT_NE(failure(extended_header(1 << 24, 1 << 24)), "");
}

TEST(WebpReader, DamagedBytesNeverDoMoreThanThrow) {
  for (const char* const name :
       {"lossy.webp", "lossless.webp", "lossy_transparent.webp", "turned.webp"}) {
    const auto whole = golden(name);
    int failed = 0;
    for (std::uint64_t round = 0; round < 1000; ++round) {
      Random random({13, round});
      auto file = whole;
      for (std::int64_t changes = 1 + random.below(4); changes > 0; --changes) {
        file[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(file.size())))] =
            static_cast<std::uint8_t>(random.next());
      }
      if (round % 3 == 0)
        file.resize(static_cast<std::size_t>(random.below(static_cast<std::int64_t>(file.size()))));
      failed += !failure(file).empty();
    }
    EXPECT_GT(failed, 300) << name;
  }
}

}  // namespace
}  // namespace stages
