#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "stages/data/image.h"

namespace stages {

/// A picture of which a box says where what it shows is.
struct BoxedPicture {
  Image image;
  Box box;
};

/// Shape number `shape`, of five eighths of `size`, somewhere on a plain, grainy ground of `size` x
/// `size`; a function of (seed, shape, index).
BoxedPicture draw_boxed_shape(std::size_t shape, int size, std::uint64_t seed, std::uint64_t index);

/// "Disc" of "disc".
std::string capitalized(std::string_view word);

}  // namespace stages
