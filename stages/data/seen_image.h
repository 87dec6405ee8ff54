#pragma once

#include <filesystem>

#include "stages/data/image.h"
#include "stages/data/image_dataset.h"

namespace stages {

/// A rectangle with edges that may lie between pixels: left and top edge, then size.
struct Region {
  double left = 0, top = 0, width = 0, height = 0;
};

/// Returns the part of an image that becomes the network's input in evaluation, in pixels of the
/// image. `used` is the box of the image that is resized and cropped: all of it, or its disc.
Region region_seen(const Box& used, const ImageDatasetOptions& transform);

/// The maximum length of the longer side of SeenImage::picture, in pixels.
inline constexpr int kLongestDrawn = 2048;

/// An image, and the part of it that a network saw.
struct SeenImage {
  Image picture;            ///< upright, before any preprocessing
  Region seen;              ///< in pixels of `picture`
  bool is_reduced = false;  ///< the image is larger than the picture
};

/// Reads an image and finds the part of it that `transform` keeps in evaluation. Its EXIF
/// orientation is applied. If a side is longer than `longest` pixels, the picture is reduced to
/// this length. Needs at most as much memory as reading a sample at full size. Throws ImageError.
SeenImage seen_image(const std::filesystem::path& path, const ImageDatasetOptions& transform,
                     int longest = kLongestDrawn);

}  // namespace stages
