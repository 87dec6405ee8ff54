#include "stages/data/exif.h"

#include <cstring>
#include <string_view>

namespace stages {
namespace {

/// Integers of a byte order, read from anywhere; out of bounds they are 0.
struct Integers {
  Bytes bytes;
  bool big_endian;

  std::uint32_t read(std::size_t at, std::size_t size) const {
    if (at > bytes.size() || bytes.size() - at < size) return 0;
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < size; ++i) value = value << 8 | bytes[at + (big_endian ? i : size - 1 - i)];
    return value;
  }
};

bool starts_with(Bytes bytes, std::string_view text) {
  return bytes.size() >= text.size() && std::memcmp(bytes.data(), text.data(), text.size()) == 0;
}

}  // namespace

int exif_orientation(Bytes tiff) {
  using namespace std::string_view_literals;
  if (!starts_with(tiff, "MM\0\x2a"sv) && !starts_with(tiff, "II\x2a\0"sv)) return 1;
  const Integers integers{tiff, tiff[0] == 'M'};
  const std::size_t directory = integers.read(4, 4);
  const std::size_t entries = integers.read(directory, 2);
  constexpr std::uint32_t kOrientation = 0x0112, kShort = 3;
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t entry = directory + 2 + 12 * i;  // tag, type, count, value
    if (entry + 12 > tiff.size()) return 1;
    if (integers.read(entry, 2) != kOrientation) continue;
    const auto value = static_cast<int>(integers.read(entry + 8, 2));
    const bool valid = integers.read(entry + 2, 2) == kShort && integers.read(entry + 4, 4) == 1;
    return valid && value >= 1 && value <= 8 ? value : 1;
  }
  return 1;
}

int jpeg_orientation(Bytes file) {
  using namespace std::string_view_literals;
  const Integers integers{file, true};
  constexpr std::uint8_t kStartOfScan = 0xDA, kApp1 = 0xE1;
  std::size_t at = 2;
  while (at + 4 <= file.size() && file[at] == 0xFF) {
    const std::uint8_t marker = file[at + 1];
    if (marker == 0xFF) {  // padding
      ++at;
      continue;
    }
    if (marker == kStartOfScan) return 1;
    const std::size_t length = integers.read(at + 2, 2);
    if (length < 2 || length > file.size() - at - 2) return 1;
    const Bytes segment = file.subspan(at + 4, length - 2);
    if (marker == kApp1 && starts_with(segment, "Exif\0\0"sv)) return exif_orientation(segment.subspan(6));
    at += 2 + length;
  }
  return 1;
}

int png_orientation(Bytes file) {
  const Integers integers{file, true};
  std::size_t at = 8;
  while (at + 12 <= file.size()) {  // length, name, data, checksum
    const std::size_t length = integers.read(at, 4);
    if (length > file.size() - at - 12) return 1;
    if (starts_with(file.subspan(at + 4), "eXIf")) return exif_orientation(file.subspan(at + 8, length));
    at += 12 + length;
  }
  return 1;
}

int webp_orientation(Bytes file) {
  using namespace std::string_view_literals;
  const Integers integers{file, false};
  std::size_t at = 12;
  while (at + 8 <= file.size()) {  // name, length, data, a byte of padding where the length is odd
    const std::size_t length = integers.read(at + 4, 4);
    if (length > file.size() - at - 8) return 1;
    if (starts_with(file.subspan(at), "EXIF")) {
      const Bytes exif = file.subspan(at + 8, length);
      return exif_orientation(starts_with(exif, "Exif\0\0"sv) ? exif.subspan(6) : exif);
    }
    at += 8 + length + length % 2;
  }
  return 1;
}

}  // namespace stages
