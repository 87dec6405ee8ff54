#include "stages/data/picture_change.h"

#include <cmath>
#include <utility>

#include "stages/data/affine.h"
#include "stages/data/picture_colors.h"

namespace stages {
namespace {

void adjust(Image& image, Adjustment adjustment, const PictureChange& change) {
  switch (adjustment) {
    case Adjustment::kBrightness:
      if (change.brightness != 1) change_brightness(image, change.brightness);
      return;
    case Adjustment::kContrast:
      if (change.contrast != 1) change_contrast(image, change.contrast);
      return;
    case Adjustment::kSaturation:
      if (change.saturation != 1) change_saturation(image, change.saturation);
      return;
    case Adjustment::kHue:
      if (change.hue) change_hue(image, *change.hue);
      return;
  }
}

Image placed_anew(Image image, const PictureChange& change) {
  if (change.rotation != 0) image = rotated(image, change.rotation);
  const int right = static_cast<int>(std::nearbyint(change.right * image.width));
  const int down = static_cast<int>(std::nearbyint(change.down * image.height));
  if (right != 0 || down != 0 || change.shear != 0 || change.scale != 1)
    image = moved(image, right, down, change.shear, change.scale);
  return image;
}

}  // namespace

bool changes_pictures(const AugmentOptions& augment) {
  return augment !=
         AugmentOptions{.random_resized_crop = augment.random_resized_crop, .horizontal_flip = augment.horizontal_flip};
}

PictureChange drawn_change(const AugmentOptions& augment, bool is_mirrored, Random& random) {
  const auto around = [&](double middle, double most) { return middle + random.uniform(-most, most); };
  PictureChange change{.is_mirrored = is_mirrored};
  change.is_upside_down = random.uniform() < augment.vertical_flip;
  for (std::size_t i = change.order.size() - 1; i > 0; --i) {
    const auto other = static_cast<std::size_t>(random.below(static_cast<std::int64_t>(i) + 1));
    std::swap(change.order[i], change.order[other]);
  }
  change.brightness = around(1, augment.brightness);
  change.contrast = around(1, augment.contrast);
  change.saturation = around(1, augment.saturation);
  const double hue = around(0, augment.hue);
  if (augment.hue > 0) change.hue = hue;
  change.rotation = around(0, augment.rotation);
  change.right = around(0, augment.translation);
  change.down = around(0, augment.translation);
  change.shear = around(0, augment.shear);
  change.scale = around(1, augment.zoom);
  return change;
}

Image changed(Image image, const PictureChange& change) {
  if (change.steps == ChangeOrder::kPlacesFirst) image = placed_anew(std::move(image), change);
  if (change.is_mirrored) flip_columns(image);
  if (change.is_upside_down) flip_rows(image);
  for (const Adjustment adjustment : change.order) adjust(image, adjustment, change);
  if (change.steps == ChangeOrder::kColoursFirst) image = placed_anew(std::move(image), change);
  return image;
}

}  // namespace stages
