#pragma once

#include <array>
#include <optional>

#include "stages/data/image.h"
#include "stages/data/transform.h"

namespace stages {

enum class Adjustment { kBrightness, kContrast, kSaturation, kHue };

/// The order of the changes. kColorsFirst: flips, color changes and affine transforms, in this
/// order, before resizing (after resizing if the image is cropped at random). kPlacesFirst:
/// rotation, affine transforms, flips and color changes, in this order, after resizing; the color
/// changes then also apply to the black borders.
enum class ChangeOrder { kColorsFirst, kPlacesFirst };

/// The changes to one image in one epoch, other than cutting. Changes at their default values are
/// not applied. If `hue` is set, the image is converted to HSV and back even for 0 turns.
struct ImageChange {
  ChangeOrder steps = ChangeOrder::kColorsFirst;
  bool is_mirrored = false, is_upside_down = false;
  std::array<Adjustment, 4> order = {Adjustment::kBrightness, Adjustment::kContrast,
                                     Adjustment::kSaturation, Adjustment::kHue};
  double brightness = 1, contrast = 1, saturation = 1;  ///< factors
  std::optional<double> hue = {};                       ///< turns
  double rotation = 0;                                  ///< degrees counterclockwise
  double right = 0, down = 0;                           ///< fractions of the width and the height
  double shear = 0;                                     ///< degrees
  double scale = 1;

  bool operator==(const ImageChange&) const = default;
};

/// True if `augment` changes an image in ways other than cutting, mirroring and FinalAugment.
bool changes_pixels(const AugmentOptions& augment);

/// Draws the change for one image, mirrored or not, from `random`. Always consumes the same number
/// of random numbers, so that no option affects the values drawn for another.
ImageChange drawn_change(const AugmentOptions& augment, bool is_mirrored, Random& random);

/// Applies `change` to `image` as torchvision's transforms do on Pillow images: the flips,
/// ColorJitter, RandomRotation, and one RandomAffine that moves, shears and scales.
Image changed(Image image, const ImageChange& change);

/// The following functions change colors in place; the results are bitwise equal to those of
/// Pillow's ImageEnhance and HSV conversion. `factor` is at least 0; 1 changes nothing.

/// Multiplies each value by `factor`.
void change_brightness(Image& image, double factor);
/// Multiplies each value's distance from the image's mean gray by `factor`.
void change_contrast(Image& image, double factor);
/// Multiplies each pixel's distance from its gray value by `factor`.
void change_saturation(Image& image, double factor);
/// Rotates the hue by `turns` full circles, -0.5 to 0.5, rounded to a multiple of 1/255. Even if
/// `turns` is 0, the image is converted to HSV and back, which rounds its values.
void change_hue(Image& image, double turns);

/// Maps each point (x, y) of the result to its source: (m[0] x + m[1] y + m[2], m[3] x + m[4] y +
/// m[5]).
using AffineMatrix = std::array<double, 6>;

/// Returns `image` transformed: each pixel is copied from the source pixel to which its center
/// maps, or is black if that point lies outside the image. Bitwise equal to Pillow's transform()
/// with nearest-neighbor resampling.
Image transformed(const Image& image, const AffineMatrix& from);

/// Returns the matrix that Pillow's rotate() uses to turn `image` counterclockwise around its
/// center.
AffineMatrix rotation(const Image& image, double degrees);

/// Returns `image` rotated counterclockwise around its center and cropped to its original size, as
/// Pillow's rotate() does.
Image rotated(const Image& image, double degrees);

/// Returns `image` moved by whole pixels, sheared along rows and scaled around its center in one
/// step, as torchvision's affine() does.
Image moved(const Image& image, int right, int down, double shear_degrees, double scale);

/// Flips the image vertically (rows) or horizontally (columns), in place.
void flip_rows(Image& image);
void flip_columns(Image& image);

}  // namespace stages
