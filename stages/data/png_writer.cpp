#include "stages/data/png_writer.h"

#include <stdexcept>

#include <png.h>

namespace stages {

std::vector<std::uint8_t> png_file(const Image& image) {
  png_image described{};
  described.version = PNG_IMAGE_VERSION;
  described.width = static_cast<png_uint_32>(image.width);
  described.height = static_cast<png_uint_32>(image.height);
  described.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(described);
  std::vector<std::uint8_t> bytes(size);
  if (!png_image_write_to_memory(&described, bytes.data(), &size, 0, image.pixels.data(), 0, nullptr))
    throw std::runtime_error(described.message);
  bytes.resize(size);
  return bytes;
}

}  // namespace stages
