#include "stages/data/jpeg_reader.h"

#include <cstdio>

#include <gtest/gtest.h>
#include <zlib.h>

#include "stages/data/image.h"
#include "tests/support/exif_pictures.h"
#include "tests/support/pictures.h"

namespace stages {
namespace {

TEST(Exif, ReadsTheOrientationInBothByteOrders) {
  for (std::uint8_t orientation = 1; orientation <= 8; ++orientation) {
    EXPECT_EQ(exif_orientation(exif_block(true, orientation)), orientation);
    EXPECT_EQ(exif_orientation(exif_block(false, orientation)), orientation);
  }
}

TEST(Exif, InvalidDataIsIgnored) {
  EXPECT_EQ(exif_orientation({}), 1);
  EXPECT_EQ(exif_orientation(exif_block(true, 9)), 1);
  EXPECT_EQ(exif_orientation(exif_block(true, 0)), 1);
  auto cut = exif_block(true, 6);
  for (; !cut.empty(); cut.pop_back()) EXPECT_EQ(exif_orientation(cut), cut.size() == 22 ? 6 : 1);
  auto far = exif_block(true, 6);
  far[4] = far[5] = far[6] = 0xFF;  // the directory is past the end of the data
  EXPECT_EQ(exif_orientation(far), 1);
}

TEST(Exif, EveryOrientationMovesTheCornerCorrectly) {
  // Only the top left corner is white. Here is where each orientation puts it on a board of 3 x 3.
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

TEST(Exif, ExifChunkInAPngIsFound) {
  auto file = encode_png(4, 2, picture(4, 2).pixels.data());
  std::vector<std::uint8_t> chunk = {0, 0, 0, 22, 'e', 'X', 'I', 'f'};
  for (const std::uint8_t byte : exif_block(true, 6)) chunk.push_back(byte);
  chunk.insert(chunk.end(), 4, 0);
  file.insert(file.begin() + 33, chunk.begin(), chunk.end());
  EXPECT_EQ(png_orientation(file), 6);
  EXPECT_EQ(read_image_header(file).shown_width(), 2);
}

Bytes bytes_in(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

std::vector<std::uint8_t> as_long(std::uint8_t orientation) {
  return {'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12, 0, 4, 0, 0, 0, 1, 0, 0, 0, orientation};
}

TEST(Exif, OrientationMayBeA32BitNumber) {
  for (std::uint8_t orientation = 1; orientation <= 8; ++orientation)
    EXPECT_EQ(exif_orientation(as_long(orientation)), orientation);
}

TEST(Exif, XmpOrientationIsAnAttributeOrElement) {
  EXPECT_EQ(xmp_orientation(bytes_in("<x tiff:Orientation=\"6\"/>")), 6);
  EXPECT_EQ(xmp_orientation(bytes_in("<tiff:Orientation>3</tiff:Orientation>")), 3);
  EXPECT_EQ(xmp_orientation(bytes_in("<x tiff:Orientation='6'/>")), 1);  // as Pillow reads it
  EXPECT_EQ(xmp_orientation(bytes_in("<x tiff:Orientation=\"9\"/>")), 1);
  EXPECT_EQ(xmp_orientation(bytes_in("tiff:Orientation")), 1);
}

/// Returns a JPEG with these APP1 segments.
std::vector<std::uint8_t> with_segments(const std::vector<std::string>& segments) {
  auto file = encode_jpeg(Image(8, 8), 90);
  std::vector<std::uint8_t> all;
  for (const std::string& segment : segments) {
    const std::size_t size = segment.size() + 2;
    all.insert(all.end(),
               {0xFF, 0xE1, static_cast<std::uint8_t>(size >> 8), static_cast<std::uint8_t>(size)});
    all.insert(all.end(), segment.begin(), segment.end());
  }
  file.insert(file.begin() + 2, all.begin(), all.end());
  return file;
}

TEST(Exif, XmpIsUsedIfExifHasNoOrientation) {
  using namespace std::string_literals;
  const auto exif = [](const std::vector<std::uint8_t>& tiff) {
    return "Exif\0\0"s + std::string(tiff.begin(), tiff.end());
  };
  const std::string xmp = "http://ns.adobe.com/xap/1.0/\0<x tiff:Orientation=\"6\"/>"s;
  auto other = exif_block(true, 1);
  other[11] = 0x13;  // another tag
  EXPECT_EQ(jpeg_orientation(with_segments({xmp})), 6);
  EXPECT_EQ(jpeg_orientation(with_segments({exif(other), xmp})), 6);
  EXPECT_EQ(jpeg_orientation(with_segments({exif(exif_block(true, 3)), xmp})), 3);
  EXPECT_EQ(jpeg_orientation(with_segments({xmp, exif(exif_block(true, 1))})), 1);
  EXPECT_EQ(jpeg_orientation(with_segments({exif(exif_block(true, 9)), xmp})), 1);
  EXPECT_EQ(jpeg_orientation(with_segments({"Exif\0\0"s + exif(exif_block(true, 8))})), 8);
}

TEST(Exif, ReadsPngTextChunksLikePillow) {
  using namespace std::string_literals;
  const auto with = [](const std::string& name, const std::string& data) {
    auto file = encode_png(4, 2, picture(4, 2).pixels.data());
    std::string chunk = {0, 0, static_cast<char>(data.size() >> 8), static_cast<char>(data.size())};
    chunk += name + data + "\0\0\0\0"s;
    file.insert(file.begin() + 33, chunk.begin(), chunk.end());
    return png_orientation(file);
  };
  std::string profile = "\nexif\n      28\n457869660000";
  for (const std::uint8_t byte : exif_block(true, 6)) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", byte);
    profile += digits;
    if (profile.size() == 60) profile += '\n';
  }
  EXPECT_EQ(with("tEXt", "Raw profile type exif\0"s + profile + "\n"), 6);
  std::vector<std::uint8_t> packed(compressBound(profile.size()));
  uLongf size = packed.size();
  ASSERT_EQ(compress(packed.data(), &size, reinterpret_cast<const Bytef*>(profile.data()),
                     profile.size()),
            Z_OK);
  EXPECT_EQ(with("zTXt",
                 "Raw profile type exif\0\0"s + std::string(packed.begin(), packed.begin() + size)),
            6);
  EXPECT_EQ(with("zTXt", "Raw profile type exif\0\0nonsense"s), 1);
  EXPECT_EQ(with("tEXt", "Raw profile type exif\0\nexif\n 2\nzz"s), 1);
  EXPECT_EQ(with("iTXt", "XML:com.adobe.xmp\0\0\0\0\0<x tiff:Orientation=\"8\"/>"s), 8);
  EXPECT_EQ(with("iTXt", "XML:com.adobe.xmp\0\0\0"s), 1);
}

TEST(Exif, XmpInAWebPIsUsed) {
  using namespace std::string_literals;
  const std::string xmp = "<x tiff:Orientation=\"5\"/>";
  const std::string file =
      "RIFF\0\0\0\0WEBPXMP "s + static_cast<char>(xmp.size()) + "\0\0\0"s + xmp;
  EXPECT_EQ(webp_orientation(bytes_in(file)), 5);
}

}  // namespace
}  // namespace stages
