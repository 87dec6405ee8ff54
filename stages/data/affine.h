#pragma once

#include <array>

#include "stages/data/image.h"

namespace stages {

/// Where each point (x, y) of a picture comes from: (m[0] x + m[1] y + m[2], m[3] x + m[4] y + m[5]).
using AffineMatrix = std::array<double, 6>;

/// `image` with each pixel taken from the place where its middle comes from, and black where that is outside: the same
/// bytes as Pillow's transform() with the nearest pixel.
Image transformed(const Image& image, const AffineMatrix& from);

/// `image` turned to the left around its middle, within its edges, as Pillow's rotate() does.
Image rotated(const Image& image, double degrees);

/// Moved by whole pixels, and around its middle sheared along rows and scaled, all at once: as torchvision's affine().
Image moved(const Image& image, int right, int down, double shear_degrees, double scale);

/// Turned upside down, or mirrored, in place.
void flip_rows(Image& image);
void flip_columns(Image& image);

}  // namespace stages
