#include "stages/data/exif.h"

#include <gtest/gtest.h>

#include "stages/data/image_reader.h"
#include "tests/support/pictures.h"

namespace stages {
namespace {

std::vector<std::uint8_t> block(bool big_endian, std::uint8_t orientation) {
  if (big_endian) return {'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, orientation, 0, 0};
  return {'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3, 0, 1, 0, 0, 0, orientation, 0, 0, 0};
}

std::vector<std::uint8_t> with_exif(const Image& image, std::uint8_t orientation) {
  auto file = encode_jpeg(image, 100);
  std::vector<std::uint8_t> segment = {0xFF, 0xE1, 0, 0, 'E', 'x', 'i', 'f', 0, 0};
  for (const std::uint8_t byte : block(orientation % 2 == 0, orientation)) segment.push_back(byte);
  segment[3] = static_cast<std::uint8_t>(segment.size() - 2);
  file.insert(file.begin() + 2, segment.begin(), segment.end());
  return file;
}

TEST(Exif, OrientationInBothByteOrders) {
  for (std::uint8_t orientation = 1; orientation <= 8; ++orientation) {
    EXPECT_EQ(exif_orientation(block(true, orientation)), orientation);
    EXPECT_EQ(exif_orientation(block(false, orientation)), orientation);
  }
}

TEST(Exif, NonsenseIsIgnored) {
  EXPECT_EQ(exif_orientation({}), 1);
  EXPECT_EQ(exif_orientation(block(true, 9)), 1);
  EXPECT_EQ(exif_orientation(block(true, 0)), 1);
  auto cut = block(true, 6);
  for (; !cut.empty(); cut.pop_back()) EXPECT_EQ(exif_orientation(cut), cut.size() == 22 ? 6 : 1);
  auto far = block(true, 6);
  far[4] = far[5] = far[6] = 0xFF;  // the directory lies beyond the end
  EXPECT_EQ(exif_orientation(far), 1);
}

TEST(Exif, EveryOrientationPutsTheCornerWhereItBelongs) {
  // Only the top left corner is white; where each orientation shows it, as a place in a 3 x 3 board.
  Image image(48, 24);
  for (int y = 0; y < 8; ++y) std::fill_n(image.row(y), 3 * 8, std::uint8_t{255});
  struct Corner {
    bool right, bottom;
  };
  const std::array<Corner, 8> corners = {{{false, false},
                                          {true, false},
                                          {true, true},
                                          {false, true},
                                          {false, false},
                                          {true, false},
                                          {true, true},
                                          {false, true}}};
  for (std::uint8_t orientation = 1; orientation <= 8; ++orientation) {
    const auto file = with_exif(image, orientation);
    const Image seen = decode_image(file);
    const ImageHeader header = read_image_header(file);
    EXPECT_EQ(seen.width, orientation >= 5 ? 24 : 48);
    EXPECT_EQ(header.shown_width(), seen.width);
    EXPECT_EQ(header.shown_height(), seen.height);
    const Corner corner = corners[orientation - 1u];
    const int x = corner.right ? seen.width - 4 : 3, y = corner.bottom ? seen.height - 4 : 3;
    EXPECT_GT(seen.row(y)[3 * x], 240) << int{orientation};
    EXPECT_LT(seen.row(seen.height - 1 - y)[3 * (seen.width - 1 - x)], 20) << int{orientation};
  }
}

TEST(Exif, ChunkOfAPngIsFound) {
  auto file = encode_png(4, 2, picture(4, 2).pixels.data());
  std::vector<std::uint8_t> chunk = {0, 0, 0, 22, 'e', 'X', 'I', 'f'};
  for (const std::uint8_t byte : block(true, 6)) chunk.push_back(byte);
  chunk.insert(chunk.end(), 4, 0);
  file.insert(file.begin() + 33, chunk.begin(), chunk.end());
  EXPECT_EQ(png_orientation(file), 6);
  EXPECT_EQ(read_image_header(file).shown_width(), 2);
}

}  // namespace
}  // namespace stages
