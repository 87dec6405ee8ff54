#pragma once

#include <optional>
#include <type_traits>

#include "stages/data/image.h"

namespace stages {

/// Removes uneven lighting from an image and stretches the contrast. Takes the grey image's mean
/// over `kernel_size` x `kernel_size` pixels, rounded, with edges mirrored without repeating them.
/// Subtracts it from each channel and adds 128; an even kernel reaches one pixel further to the
/// left and up. Then adds `brightness`, multiplies the distance from 128 by `contrast`, and
/// sharpens: 1 + 4 `sharpen` times each pixel less `sharpen` times its four neighbours. After each
/// step values are clamped to 0 … 255 and, before the last, rounded down to whole numbers.
struct FlattenSharpen {
  int kernel_size = 30;
  double brightness = 20, contrast = 2, sharpen = 1.5;
  bool operator==(const FlattenSharpen&) const = default;
};

/// Contrast-limited adaptive histogram equalisation (Zuiderveld, Graphics Gems IV, 1994) of the
/// lightness, L of 8-bit Lab, as in OpenCV.
struct Clahe {
  double clip_limit = 3;  ///< of a tile's histogram bins, as a multiple of the mean bin; 0: none
  int columns = 8, rows = 8;
  bool operator==(const Clahe&) const = default;
};

/// The steps applied to an image at its full size, in this order, before random changes, cutting
/// and resizing.
struct Preprocessing {
  std::optional<FlattenSharpen> flatten_sharpen = {};
  std::optional<Clahe> clahe = {};

  bool does_anything() const { return flatten_sharpen || clahe; }
  bool operator==(const Preprocessing&) const = default;
};

/// `image` preprocessed: a function of its pixels and of parameters that are the same for every
/// image. The image's class, file name and part are not available here, so no step can depend on
/// them: the same preprocessing applies to an image of unknown class. Thread-safe; starts no
/// threads of its own.
Image preprocessed(Image image, const Preprocessing& steps);

static_assert(std::is_same_v<decltype(preprocessed), Image(Image, const Preprocessing&)>,
              "preprocessing must see the pixels alone");

}  // namespace stages
