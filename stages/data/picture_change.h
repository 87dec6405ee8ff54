#pragma once

#include <array>
#include <optional>

#include "stages/data/image.h"
#include "stages/data/transform.h"

namespace stages {

enum class Adjustment { kBrightness, kContrast, kSaturation, kHue };

/// Whether a picture is mirrored, coloured and then moved, before it is resized unless it was
/// cropped at random; or turned, moved, mirrored and then coloured, so that colours change the
/// black at its edges too, once it is resized.
enum class ChangeOrder { kColoursFirst, kPlacesFirst };

/// What is done to one picture in one epoch beside cutting it; what is not asked for is not done.
/// Hue is converted also where it is turned by nothing.
struct PictureChange {
  ChangeOrder steps = ChangeOrder::kColoursFirst;
  bool is_mirrored = false, is_upside_down = false;
  std::array<Adjustment, 4> order = {Adjustment::kBrightness, Adjustment::kContrast,
                                     Adjustment::kSaturation, Adjustment::kHue};
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

/// The change for a picture, mirrored or not, drawn from `random`: as many numbers whatever is
/// asked for, so that one option does not change what another one draws.
PictureChange drawn_change(const AugmentOptions& augment, bool is_mirrored, Random& random);

/// `image` changed: by torchvision's transforms of Pillow's images, the flips, ColorJitter,
/// RandomRotation, and one RandomAffine that moves, shears and scales.
Image changed(Image image, const PictureChange& change);

/// Colours changed in place, with the same bytes as Pillow's ImageEnhance and its HSV give;
/// `factor` is at least 0, and 1 changes nothing.

/// Each value times `factor`.
void change_brightness(Image& image, double factor);
/// Each value's distance from the image's mean grey times `factor`.
void change_contrast(Image& image, double factor);
/// Each pixel's distance from its grey times `factor`.
void change_saturation(Image& image, double factor);
/// The hue turned by so many full circles, -0.5 to 0.5, rounded to a 255th; 0 is a conversion to
/// HSV and back, which rounds.
void change_hue(Image& image, double turns);

/// Where each point (x, y) of a picture comes from: (m[0] x + m[1] y + m[2], m[3] x + m[4] y +
/// m[5]).
using AffineMatrix = std::array<double, 6>;

/// `image` with each pixel taken from the place where its middle comes from, and black where that
/// is outside: the same bytes as Pillow's transform() with the nearest pixel.
Image transformed(const Image& image, const AffineMatrix& from);

/// `image` turned to the left around its middle, within its edges, as Pillow's rotate() does.
Image rotated(const Image& image, double degrees);

/// Moved by whole pixels, and around its middle sheared along rows and scaled, all at once: as
/// torchvision's affine().
Image moved(const Image& image, int right, int down, double shear_degrees, double scale);

/// Turned upside down, or mirrored, in place.
void flip_rows(Image& image);
void flip_columns(Image& image);

}  // namespace stages
