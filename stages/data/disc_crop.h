#pragma once

#include "stages/data/image.h"

namespace stages {

/// Crops an image to the bright disc on its black background, as in Graham's EyePACS preprocessing
/// (2015): a pixel is bright if the sum of its channels is above `threshold` times the image's mean
/// sum. The result is the bounding box of the rows and columns in which at least 1% of the pixels
/// are bright, so stray bright pixels on the black background do not enlarge it.
struct CropToDisc {
  double threshold = 0.1;
  bool operator==(const CropToDisc&) const = default;
};

/// Returns the box to which the image is cropped: all of it if no pixel is bright.
Box disc_box(const Image& image, const CropToDisc& crop);

/// Returns the cropped image, or `image` itself if no pixel is bright, as in a black image.
Image cropped_to_disc(Image image, const CropToDisc& crop);

}  // namespace stages
