#pragma once

#include <cstdint>
#include <vector>

#include "stages/data/image.h"

namespace stages {

/// Encodes `image` as a baseline JPEG file without chroma subsampling; `quality` is libjpeg's, 1 to
/// 100. Neither side may exceed 65500 pixels. Throws std::runtime_error if libjpeg fails.
std::vector<std::uint8_t> encode_jpeg(const Image& image, int quality);

/// Like encode_jpeg(), but encodes `image` as a grayscale file.
std::vector<std::uint8_t> encode_gray_jpeg(const Image& image, int quality);

/// Encodes `image` as a PNG file. Throws std::runtime_error if libpng fails.
std::vector<std::uint8_t> png_file(const Image& image);

}  // namespace stages
