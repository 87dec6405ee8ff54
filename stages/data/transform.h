#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "stages/data/augment_policy.h"
#include "stages/data/image.h"
#include "stages/data/weighted_sums.h"
#include "stages/random/random.h"

namespace stages {

enum class CropOffset { kFloor, kRound };
enum class ResizeShape { kShortestSide, kSquare };

/// How an image of any size is resized and cropped to image_size x image_size in evaluation.
struct ResizeOptions {
  Interpolation interpolation = Interpolation::kBicubic;
  double crop_fraction = 1;
  CropOffset crop_offset = CropOffset::kFloor;
  ResizeShape shape = ResizeShape::kShortestSide;
};

/// Inception's random crop (Szegedy et al., "Going deeper with convolutions", 2015, section 6),
/// drawn as in torchvision.
struct RandomResizedCrop {
  double smallest_area = 0.08, largest_area = 1;  ///< as fractions of the image's area
  double narrowest = 0.75, widest = 1.3333;       ///< width divided by height
  bool operator==(const RandomResizedCrop&) const = default;
};

/// Replaces a random rectangle of the normalized image: Zhong et al., arXiv:1708.04896, drawn as in
/// torchvision.
struct RandomErasing {
  double probability = 0.25;
  double smallest_area = 0.02, largest_area = 0.33;      ///< as shares of the image's area
  double narrowest = 0.3, widest = 3.3;                  ///< height divided by width
  enum class Fill { kMean, kNoise } fill = Fill::kMean;  ///< 0, or standard normal values
  bool operator==(const RandomErasing&) const = default;
};

/// Blurs with Pillow's GaussianBlur; its radius, in pixels, is drawn from a range.
struct RandomBlur {
  double probability = 0.5;
  double smallest_radius = 0.1, largest_radius = 2;
  bool operator==(const RandomBlur&) const = default;
};

/// The steps applied, in this order, to an image that already has its final size. Erasing follows
/// normalization.
struct FinalAugment {
  std::optional<AugmentPolicy> policy = {};
  double grayscale = 0;  ///< probability
  std::optional<RandomBlur> blur = {};
  std::optional<RandomErasing> erasing = {};
  bool operator==(const FinalAugment&) const = default;
};

struct AugmentOptions {
  std::optional<RandomResizedCrop> random_resized_crop = {};
  double horizontal_flip = 0, vertical_flip = 0;        ///< probabilities
  double brightness = 0, contrast = 0, saturation = 0;  ///< a factor's largest deviation from 1
  double hue = 0;                                       ///< in full turns, in both directions
  double rotation = 0, shear = 0;                       ///< in degrees, in both directions
  double translation = 0;  ///< fraction of the width and of the height, in both directions
  double zoom = 0;         ///< a factor's largest deviation from 1
  FinalAugment last = {};

  bool operator==(const AugmentOptions&) const = default;
};

/// True if an image may differ between epochs.
inline bool changes_images(const AugmentOptions& options) { return options != AugmentOptions{}; }

/// The source of a sample's pixels: the image's region `from` is resized to width x height, and
/// then cropped to `window`.
struct Cut {
  Box from;
  std::int64_t width = 0, height = 0;
  Box window;
  bool mirrored = false;
};

/// The random choices of FinalAugment for one image in one epoch.
struct DrawnFinal {
  std::optional<DrawnPolicy> policy = {};
  std::vector<OperationAt> steps = {};  ///< after the policy
  std::optional<Box> erased = {};

  bool changes_pixels() const { return policy || !steps.empty(); }
};

/// Draws the random choices for an image of `size` x `size`.
DrawnFinal drawn_final(const FinalAugment& options, int size, Random& random);

/// Returns the evaluation cut of an image of `width` x `height`, which depends only on the size.
Cut evaluation_cut(int width, int height, int image_size, const ResizeOptions& options);

/// Draws a training cut from `random`; uses only the crop and the horizontal flip of `augment`.
Cut training_cut(int width, int height, int image_size, const ResizeOptions& options,
                 const AugmentOptions& augment, Random& random);

/// Returns `cut` adapted to the same image decoded at a different size.
Cut at_size(const Cut& cut, const ImageHeader& header, const Image& decoded);

/// Returns the pixels of the cut.
Image apply(const Cut& cut, const Image& image, Interpolation interpolation);

}  // namespace stages
