#pragma once

#include <optional>
#include <type_traits>

#include "stages/data/image.h"

namespace stages {

/// Takes the light out of a photograph and stretches what is left. The grey picture's mean over
/// `kernel_size` x `kernel_size` pixels, rounded, and at the edges mirrored without repeating them,
/// is taken from each channel and 128 is added; an even kernel reaches one pixel further to the
/// left and up. Then `brightness` is added, the distance from 128 is multiplied by `contrast`, and
/// 1 + 4 `sharpen` times each pixel less `sharpen` times its four neighbours is taken. After each
/// step values are cut to 0 … 255 and, before the last, to whole numbers downwards.
struct FlattenSharpen {
  int kernel_size = 30;
  double brightness = 20, contrast = 2, sharpen = 1.5;
  bool operator==(const FlattenSharpen&) const = default;
};

/// Contrast-limited adaptive histogram equalisation (Zuiderveld, Graphics Gems IV, 1994) of the
/// lightness, L of 8-bit Lab, as OpenCV does it.
struct Clahe {
  double clip_limit = 3;  ///< of a tile's histogram bins, as a multiple of the mean bin; 0: none
  int columns = 8, rows = 8;
  bool operator==(const Clahe&) const = default;
};

/// What is done to a photograph at its full size, before it is changed at random, cut and resized,
/// in this order.
struct Preprocessing {
  std::optional<FlattenSharpen> flatten_sharpen = {};
  std::optional<Clahe> clahe = {};

  bool does_anything() const { return flatten_sharpen || clahe; }
  bool operator==(const Preprocessing&) const = default;
};

/// `image` preprocessed: a function of its pixels and of numbers that are the same for every
/// picture. The class of a picture, its file's name and the part that it is in are not known here,
/// so no step can depend on them: what is learned is what can be applied to a picture of unknown
/// class. Thread-safe; starts no threads of its own.
Image preprocessed(Image image, const Preprocessing& steps);

static_assert(std::is_same_v<decltype(preprocessed), Image(Image, const Preprocessing&)>,
              "preprocessing must see the pixels alone");

}  // namespace stages
