#include "stages/data/jpeg_reader.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "stages/data/image.h"
#include "tests/support/pictures.h"
#include "tests/support/refused.h"

namespace stages {
namespace {

int largest_difference(Bytes a, const std::uint8_t* b) {
  int largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::abs(int{a[i]} - int{b[i]}));
  return largest;
}

/// Returns `file`, a baseline JPEG, with other sizes in its header.
std::vector<std::uint8_t> with_size(std::vector<std::uint8_t> file, int width, int height) {
  for (std::size_t i = 0; i + 9 < file.size(); ++i) {
    if (file[i] != 0xFF || file[i + 1] != 0xC0) continue;
    file[i + 5] = static_cast<std::uint8_t>(height >> 8);
    file[i + 6] = static_cast<std::uint8_t>(height);
    file[i + 7] = static_cast<std::uint8_t>(width >> 8);
    file[i + 8] = static_cast<std::uint8_t>(width);
    break;
  }
  return file;
}

TEST(JpegReader, WrittenImageIsReadBack) {
  Image image(40, 30);
  for (int y = 0; y < 30; ++y) {
    for (int x = 0; x < 120; ++x) image.row(y)[x] = static_cast<std::uint8_t>(2 * x / 3 + 3 * y);
  }
  const Image read = decode_jpeg(encode_jpeg(image, 98));
  EXPECT_LE(largest_difference(read.pixels, image.pixels.data()), 6);
}

TEST(JpegReader, ReducedSidesAreRoundedUp) {
  const auto file = encode_jpeg(picture(101, 67), 90);
  const Image image = decode_jpeg(file, 3);
  EXPECT_EQ(image.width, 38);
  EXPECT_EQ(image.height, 26);
  const ImageHeader header = read_image_header(file);
  EXPECT_EQ(smallest_eighths(file, header, 38, 26), 3);
  EXPECT_EQ(smallest_eighths(file, header, 39, 26), 4);
  EXPECT_EQ(smallest_eighths(file, header, 500, 1), 8);
}

TEST(JpegReader, TruncatedFileIsCorrupt) {
  auto file = encode_jpeg(picture(64, 64), 90);
  file.resize(file.size() / 2);
  EXPECT_REFUSED(image_faults(file), kCorruptImage, "", "Premature");
  file.resize(20);
  EXPECT_REFUSED(image_faults(file), kCorruptImage, "");
}

TEST(JpegReader, HeaderWithTooManyPixelsIsRejected) {
  EXPECT_REFUSED(image_faults(with_size(encode_jpeg(picture(8, 8), 90), 20'000, 10'000)),
                 kImageTooLarge, "", "20000 x 10000", "178 million");
}

/// A progressive JPEG of one gray block that repeats its first scan `count` times.
std::vector<std::uint8_t> with_scans(int count) {
  std::vector<std::uint8_t> file = {0xFF, 0xD8, 0xFF, 0xDB, 0, 67, 0};
  const auto add = [&](std::initializer_list<std::uint8_t> bytes) {
    file.insert(file.end(), bytes);
  };
  file.insert(file.end(), 64, 1);                          // the quantization table
  add({0xFF, 0xC2, 0, 11, 8, 0, 8, 0, 8, 1, 1, 0x11, 0});  // 8 x 8 pixels of one component
  add({0xFF, 0xC4, 0, 20, 0, 1});                          // one code, of one bit,
  file.insert(file.end(), 16, 0);                          // for the difference 0
  for (int i = 0; i < count; ++i) add({0xFF, 0xDA, 0, 8, 1, 1, 0, 0, 0, 0, 0x7F});
  add({0xFF, 0xD9});
  return file;
}

TEST(JpegReader, ThousandsOfScansAreRejected) {
  EXPECT_THAT(image_faults(with_scans(500)), testing::IsEmpty());
  EXPECT_REFUSED(image_faults(with_scans(501)), kCorruptImage, "", "500 scans");
}

TEST(JpegReader, ImageWithoutPixelsIsCorrupt) {
  EXPECT_REFUSED(image_faults(with_size(encode_jpeg(picture(8, 8), 90), 0, 8)), kCorruptImage, "",
                 "no pixels");
}

TEST(JpegReader, DamagedBytesOnlyThrow) {
  const auto whole = encode_jpeg(picture(33, 25), 85);
  EXPECT_GT(damaged_and_refused(whole, 11, 1500), 500);
}

}  // namespace
}  // namespace stages
