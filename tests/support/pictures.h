#pragma once

#include <png.h>

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "runner/shared/error/diagnostic.h"
#include "stages/data/image.h"
#include "stages/data/image_writer.h"
#include "stages/random/random.h"
#include "tests/support/temporary_folder.h"

/// An image of smooth colors and grain, different for every seed.
inline stages::Image picture(int width, int height, std::uint64_t seed = 0) {
  stages::Image image(width, height);
  stages::Random random({seed});
  const double across = random.uniform(0.5, 3), down = random.uniform(0.5, 3);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int channel = 0; channel < 3; ++channel) {
        image.row(y)[3 * x + channel] = static_cast<std::uint8_t>(
            static_cast<int>(across * x + down * y * (channel + 1) + 20 * random.uniform()) & 255);
      }
    }
  }
  return image;
}

/// `pixels` as a PNG file; `format` is libpng's PNG_FORMAT_RGB, PNG_FORMAT_GRAY, ….
inline std::vector<std::uint8_t> encode_png(int width, int height, const void* pixels,
                                            unsigned format = PNG_FORMAT_RGB) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = format;
  png_alloc_size_t size = 0;
  if (!png_image_write_to_memory(&image, nullptr, &size, 0, pixels, 0, nullptr))
    throw std::runtime_error(image.message);
  std::vector<std::uint8_t> bytes(size);
  if (!png_image_write_to_memory(&image, bytes.data(), &size, 0, pixels, 0, nullptr))
    throw std::runtime_error(image.message);
  bytes.resize(size);
  return bytes;
}

inline std::vector<std::uint8_t> file_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The image error that `read` throws, if any.
template <typename Read>
runner::Diagnostics image_faults(const Read& read) requires std::invocable<Read> {
  try {
    read();
  } catch (const stages::ImageError& error) {
    return {{error.code, {}, "", error.what(), ""}};
  }
  return {};
}
inline runner::Diagnostics image_faults(stages::Bytes file) {
  return image_faults([&] { stages::decode_image(file); });
}

/// Damages a few bytes of `whole`, and sometimes truncates it; returns how many of `rounds` such
/// files are rejected.
inline int damaged_and_refused(const std::vector<std::uint8_t>& whole, std::uint64_t key,
                               std::uint64_t rounds) {
  int refused = 0;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    stages::Random random({key, round});
    auto file = whole;
    const auto anywhere = [&] {
      return static_cast<std::size_t>(random.below(static_cast<std::int64_t>(file.size())));
    };
    for (std::int64_t changes = 1 + random.below(4); changes > 0; --changes) {
      std::uint8_t& changed = file[anywhere()];
      changed = static_cast<std::uint8_t>(random.next());
    }
    if (round % 3 == 0) file.resize(anywhere());
    refused += !image_faults(stages::Bytes(file)).empty();
  }
  return refused;
}

inline void write_bytes(const std::filesystem::path& path, const std::vector<std::uint8_t>& bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

/// A fresh folder for image files.
class DrawingFolder : public TemporaryFolder {
 public:
  std::filesystem::path operator/(const std::string& below) const { return path() / below; }
  /// A small JPEG at `below`.
  void add(const std::string& below, std::uint64_t seed = 0, int width = 20,
           int height = 16) const {
    write_bytes(path() / below, stages::encode_jpeg(picture(width, height, seed), 90));
  }
};
