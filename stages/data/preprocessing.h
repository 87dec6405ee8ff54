#pragma once

#include <optional>
#include <type_traits>

#include "stages/data/disc_crop.h"
#include "stages/data/image.h"

namespace stages {

/// Removes uneven lighting from an image and stretches the contrast. Subtracts the gray image's
/// rounded mean over `kernel_size` x `kernel_size` pixels from each channel and adds 128; edges are
/// mirrored without repeating the edge pixel, and an even kernel extends one pixel further to the
/// left and up. Then adds `brightness`, multiplies the distance from 128 by `contrast`, and
/// sharpens: 1 + 4 `sharpen` times each pixel minus `sharpen` times its four neighbors. After each
/// step, values are clamped to 0 … 255 and, except after the last, rounded down to integers.
struct FlattenSharpen {
  int kernel_size = 30;
  double brightness = 20, contrast = 2, sharpen = 1.5;
  bool operator==(const FlattenSharpen&) const = default;
};

/// Contrast-limited adaptive histogram equalization (Zuiderveld, Graphics Gems IV, 1994) applied to
/// the lightness (L of 8-bit Lab), as in OpenCV.
struct Clahe {
  /// The limit of a tile's histogram bins, as a multiple of the mean bin; 0: no limit.
  double clip_limit = 3;
  int columns = 8, rows = 8;
  bool operator==(const Clahe&) const = default;
};

/// The steps applied to a full-size image, in this order, before random changes, cutting and
/// resizing.
struct Preprocessing {
  std::optional<CropToDisc> crop_to_disc = {};
  std::optional<FlattenSharpen> flatten_sharpen = {};
  std::optional<Clahe> clahe = {};

  bool does_anything() const { return crop_to_disc || flatten_sharpen || clahe; }
  bool operator==(const Preprocessing&) const = default;
};

/// Returns the preprocessed `image`. The result depends only on the pixels and on parameters that
/// are the same for every image. Class, file name and part are not available here, so images of
/// unknown class are preprocessed in the same way. Thread-safe; starts no threads.
Image preprocessed(Image image, const Preprocessing& steps);

static_assert(std::is_same_v<decltype(preprocessed), Image(Image, const Preprocessing&)>,
              "preprocessing must see the pixels alone");

}  // namespace stages
