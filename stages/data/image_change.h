#pragma once

#include <array>
#include <optional>

#include "stages/data/image.h"
#include "stages/data/transform.h"

namespace stages {

enum class Adjustment { kBrightness, kContrast, kSaturation, kHue };

/// The order of the changes. kColoursFirst: the image is mirrored, coloured and then moved, before
/// resizing, or after it if the image was cropped at random. kPlacesFirst: after resizing, it is
/// turned, moved, mirrored and then coloured, so that colours also change the black at its edges.
enum class ChangeOrder { kColoursFirst, kPlacesFirst };

/// The changes to one image in one epoch, other than the cut; changes that are not requested are
/// not applied. The conversion of hue is done even if it turns the hue by 0.
struct ImageChange {
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

  bool operator==(const ImageChange&) const = default;
};

/// True if `augment` changes an image by more than its cut, mirroring and FinalAugment.
bool changes_pixels(const AugmentOptions& augment);

/// The change for an image, mirrored or not, drawn from `random`. Always draws the same number of
/// random numbers, so that one option does not affect the draws of another.
ImageChange drawn_change(const AugmentOptions& augment, bool is_mirrored, Random& random);

/// Applies `change` to `image` as torchvision's transforms do on Pillow images: the flips,
/// ColorJitter, RandomRotation, and one RandomAffine that moves, shears and scales.
Image changed(Image image, const ImageChange& change);

/// Colour changes in place, bitwise equal to those of Pillow's ImageEnhance and its HSV conversion;
/// `factor` is at least 0, and 1 changes nothing.

/// Multiplies each value by `factor`.
void change_brightness(Image& image, double factor);
/// Multiplies each value's distance from the image's mean grey by `factor`.
void change_contrast(Image& image, double factor);
/// Multiplies each pixel's distance from its grey by `factor`.
void change_saturation(Image& image, double factor);
/// Turns the hue by `turns` full circles, -0.5 to 0.5, rounded to a 255th; 0 is a conversion to HSV
/// and back, which rounds.
void change_hue(Image& image, double turns);

/// Maps each point (x, y) of the result to its source: (m[0] x + m[1] y + m[2], m[3] x + m[4] y +
/// m[5]).
using AffineMatrix = std::array<double, 6>;

/// `image` transformed: each pixel is taken from the source of its centre, black if that is
/// outside. Bitwise equal to Pillow's transform() with the nearest pixel.
Image transformed(const Image& image, const AffineMatrix& from);

/// The matrix by which Pillow's rotate() turns `image` counterclockwise around its centre.
AffineMatrix rotation(const Image& image, double degrees);

/// `image` rotated counterclockwise around its centre, cropped to its size, as Pillow's rotate()
/// does.
Image rotated(const Image& image, double degrees);

/// Moved by whole pixels, sheared along rows and scaled around the centre, all at once, as
/// torchvision's affine() does.
Image moved(const Image& image, int right, int down, double shear_degrees, double scale);

/// Flipped vertically, or mirrored, in place.
void flip_rows(Image& image);
void flip_columns(Image& image);

}  // namespace stages
