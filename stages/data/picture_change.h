#pragma once

#include <array>
#include <optional>

#include "stages/data/transform.h"

namespace stages {

enum class Adjustment { kBrightness, kContrast, kSaturation, kHue };

/// Whether a picture is mirrored, coloured and then moved, before it is resized unless it was cropped at random; or
/// turned, moved, mirrored and then coloured, so that colours change the black at its edges too, once it is resized.
enum class ChangeOrder { kColoursFirst, kPlacesFirst };

/// What is done to one picture in one epoch beside cutting it; what is not asked for is not done. Hue is converted also
/// where it is turned by nothing.
struct PictureChange {
  ChangeOrder steps = ChangeOrder::kColoursFirst;
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

/// `image` changed: by torchvision's transforms of Pillow's images, the flips, ColorJitter, RandomRotation, and one
/// RandomAffine that moves, shears and scales.
Image changed(Image image, const PictureChange& change);

}  // namespace stages
