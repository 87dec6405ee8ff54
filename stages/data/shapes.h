#pragma once

#include <span>
#include <string_view>

#include "stages/data/image.h"
#include "stages/random/random.h"

namespace stages {

/// The kinds of shapes that can be drawn, easiest to tell apart first: "stripes_horizontal", "disc", …
std::span<const std::string_view> shape_names();

/// A picture of shape number `shape`, `size` x `size`, drawn from `random`: where it lies, how it is turned and what
/// its two colours are. Every shape covers the same shares of the picture and takes its colours alike, the lighter one
/// for the shape, so colours alone do not tell the shapes apart.
Image draw_shape(std::size_t shape, int size, Random random);

}  // namespace stages
