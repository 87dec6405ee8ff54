#pragma once

#include <array>
#include <optional>

#include "stages/data/transform.h"

namespace stages {

enum class Adjustment { kBrightness, kContrast, kSaturation, kHue };

/// What is done to one picture in one epoch beside cutting it, in this order; what is not asked for is not done. Hue
/// is converted also where it is turned by nothing.
struct PictureChange {
  bool is_mirrored = false, is_upside_down = false;
  std::array<Adjustment, 4> order = {Adjustment::kBrightness, Adjustment::kContrast, Adjustment::kSaturation,
                                     Adjustment::kHue};
  double brightness = 1, contrast = 1, saturation = 1;  ///< factors
  std::optional<double> hue = {};                       ///< turns
  double rotation = 0;                                  ///< degrees to the left
  double right = 0, down = 0;                           ///< shares of the width and of the height
  double shear = 0;                                     ///< degrees
  double scale = 1;

  bool operator==(const PictureChange&) const = default;
};

/// Does `augment` ask for more than a cut that may be mirrored?
bool changes_pictures(const AugmentOptions& augment);

/// The change for a picture, mirrored or not, drawn from `random`: as many numbers whatever is asked for, so that one
/// option does not change what another one draws.
PictureChange drawn_change(const AugmentOptions& augment, bool is_mirrored, Random& random);

/// `image` changed: by torchvision's transforms of Pillow's images, ColorJitter, RandomRotation, and one RandomAffine
/// that moves, shears and scales.
Image changed(Image image, const PictureChange& change);

}  // namespace stages
