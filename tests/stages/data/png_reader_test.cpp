#include "stages/data/image.h"

#include <sys/stat.h>

#include <array>
#include <cstdint>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "tests/support/pictures.h"
#include "tests/support/refused.h"
#include "tests/support/temporary_folder.h"

namespace stages {
namespace {

std::vector<std::uint8_t> header_of(std::uint32_t width, std::uint32_t height) {
  std::vector<std::uint8_t> file = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n',
                                    0,    0,   0,   13,  'I',  'H',  'D',  'R'};
  for (const std::uint32_t side : {width, height}) {
    for (int shift = 24; shift >= 0; shift -= 8)
      file.push_back(static_cast<std::uint8_t>(side >> shift));
  }
  file.insert(file.end(), {8, 2, 0, 0, 0, 0, 0, 0, 0});
  return file;
}

TEST(PngReader, TransparencyIsDropped) {
  const std::array<std::uint8_t, 8> pixels = {10, 20, 30, 0, 40, 50, 60, 128};
  EXPECT_EQ(decode_png(encode_png(2, 1, pixels.data(), PNG_FORMAT_RGBA)).pixels,
            (Pixels{10, 20, 30, 40, 50, 60}));
}

TEST(PngReader, GrayIsRepeatedInAllChannels) {
  const std::array<std::uint8_t, 2> pixels = {7, 200};
  EXPECT_EQ(decode_png(encode_png(1, 2, pixels.data(), PNG_FORMAT_GRAY)).pixels,
            (Pixels{7, 7, 7, 200, 200, 200}));
}

TEST(PngReader, SixteenBitsAreReducedToTheUpperEight) {
  const std::array<std::uint16_t, 3> values = {0x00FF, 0x0100, 0x80FF};
  const auto gray = encode_png(3, 1, values.data(), PNG_FORMAT_LINEAR_Y);
  EXPECT_TRUE(has_16_bits(gray));
  EXPECT_EQ(decode_png(gray).pixels, (Pixels{0, 0, 0, 1, 1, 1, 128, 128, 128}));
  const auto color = encode_png(1, 1, values.data(), PNG_FORMAT_LINEAR_RGB);
  EXPECT_TRUE(has_16_bits(color));
  EXPECT_EQ(decode_png(color).pixels, (Pixels{0, 1, 128}));
  EXPECT_FALSE(has_16_bits(encode_png(8, 8, picture(8, 8).pixels.data())));
  EXPECT_FALSE(has_16_bits(encode_jpeg(picture(8, 8), 90)));
}

TEST(PngReader, MissingPixelsAreCorrupt) {
  auto file = encode_png(50, 50, picture(50, 50).pixels.data());
  file.resize(file.size() / 2);
  EXPECT_REFUSED(image_faults(file), kCorruptImage, "", "is truncated");
  file.resize(30);
  EXPECT_REFUSED(image_faults(file), kCorruptImage, "", "is truncated");
  file.resize(12);
  EXPECT_REFUSED(image_faults(file), kCorruptImage, "", "header");
}

TEST(PngReader, HeaderWithTooManyPixelsIsRejected) {
  EXPECT_REFUSED(image_faults(header_of(20'000, 10'000)), kImageTooLarge, "", "20000 x 10000",
                 "178 million");
  EXPECT_REFUSED(image_faults(header_of(2'000'000, 2)), kImageTooLarge, "", "2000000 x 2");
  EXPECT_REFUSED(image_faults(header_of(0, 7)), kCorruptImage, "", "0 x 7");
}

TEST(PngReader, DamagedBytesOnlyThrow) {
  const auto whole = encode_png(31, 17, picture(31, 17).pixels.data());
  EXPECT_GT(damaged_and_refused(whole, 12, 1500), 1000);
}

TEST(ImageReader, DetectsFormatsByContentAndReportsUnsupportedOnes) {
  EXPECT_REFUSED(image_faults(Bytes{}), kCorruptImage, "", "empty");
  const std::string words = "no image";
  EXPECT_REFUSED(
      image_faults(Bytes{reinterpret_cast<const std::uint8_t*>(words.data()), words.size()}),
      kUnsupportedImage, "", "JPEG, PNG or WebP");
  const std::string text = "GIF89a";
  EXPECT_REFUSED(
      image_faults(Bytes{reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}),
      kUnsupportedImage, "", "GIF");
}

TEST(ImageReader, FileOfMoreThanAGibibyteIsNotRead) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.write("a.png", "");
  std::filesystem::resize_file(file, (std::int64_t{1} << 30) + 1);  // a sparse file
  EXPECT_REFUSED(image_faults([&] { read_image_file(file); }), kImageTooLarge, "");
}

TEST(ImageReader, MissingFilesAndFoldersAreRejected) {
  const DrawingFolder folder;
  const auto cause = [](const std::filesystem::path& path) {
    return image_faults([&] { read_image_file(path); });
  };
  EXPECT_REFUSED(cause(folder / "a.jpg"), kMissingImage, "", "No such file");
  EXPECT_REFUSED(cause(folder.path()), kMissingImage, "", "not a file");
  ASSERT_EQ(mkfifo((folder / "pipe.jpg").c_str(), 0600), 0);
  EXPECT_REFUSED(cause(folder / "pipe.jpg"), kMissingImage, "", "not a file");
}

}  // namespace
}  // namespace stages
