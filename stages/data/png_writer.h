#pragma once

#include <cstdint>
#include <vector>

#include "stages/data/image.h"

namespace stages {

/// `image` as a PNG file. Throws std::runtime_error when libpng refuses.
std::vector<std::uint8_t> png_file(const Image& image);

}  // namespace stages
