#pragma once

#include <cstdint>

#include "stages/data/image.h"

namespace stages {

/// How a pixel is made from its neighbours; each is widened when an image is made smaller, so nothing aliases.
enum class Interpolation {
  kBilinear,  ///< a triangle, one pixel to each side
  kBicubic,   ///< Keys, "Cubic convolution interpolation for digital image processing", 1981, with a = -0.5
};

/// The part `window` of `image`'s part `from`, resized to `width` x `height`.
///
/// The same bytes as Pillow's Image.crop(from).resize((width, height)).crop(window), which fixes the arithmetic:
/// coefficients of 22 fractional bits, one pass along rows and one along columns, rounded to 8 bits after each; a pass
/// that would change nothing is left out. Rows come first, except (since Pillow 13) where the height shrinks and loses
/// more than twice as many pixels as the width. Only the rows and columns that `window` needs are computed, so `width`
/// and `height` may be far larger than fits memory. `from` must lie in the image, `window` in the result, neither
/// empty.
Image resize(const Image& image, const Box& from, std::int64_t width, std::int64_t height, const Box& window,
             Interpolation interpolation);

/// All of `image`, resized.
Image resize(const Image& image, int width, int height, Interpolation interpolation);

}  // namespace stages
