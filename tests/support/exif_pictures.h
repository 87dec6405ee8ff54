#pragma once

#include <cstdint>
#include <vector>

#include "stages/data/image.h"
#include "stages/data/image_writer.h"

/// An EXIF block that contains only an orientation.
inline std::vector<std::uint8_t> exif_block(bool big_endian, std::uint8_t orientation) {
  if (big_endian)
    return {'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, orientation, 0, 0};
  return {'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3, 0, 1, 0, 0, 0, orientation, 0, 0, 0};
}

/// A JPEG file that stores `image` unchanged, with an EXIF orientation.
inline std::vector<std::uint8_t> with_exif(const stages::Image& image, std::uint8_t orientation) {
  auto file = stages::encode_jpeg(image, 100);
  std::vector<std::uint8_t> segment = {0xFF, 0xE1, 0, 0, 'E', 'x', 'i', 'f', 0, 0};
  for (const std::uint8_t byte : exif_block(orientation % 2 == 0, orientation))
    segment.push_back(byte);
  segment[3] = static_cast<std::uint8_t>(segment.size() - 2);
  file.insert(file.begin() + 2, segment.begin(), segment.end());
  return file;
}
