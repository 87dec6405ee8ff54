#pragma once

#include "stages/data/image.h"

namespace stages {

/// The operations that automatic augmentations choose from, named as in torchvision.
enum class Operation {
  kIdentity,
  kShearX,
  kShearY,
  kTranslateX,
  kTranslateY,
  kRotate,
  kBrightness,
  kColor,
  kContrast,
  kSharpness,
  kPosterize,
  kSolarize,
  kAutoContrast,
  kEqualize,
  kInvert,
  kGrayscale,
  kGaussianBlur,
};

/// The source pixels from which a moved pixel is computed: the nearest one, or the four around it.
enum class Neighbors { kNearest, kBilinear };

/// An operation and its strength: kShearX and kShearY take the tangent of an angle; kTranslateX and
/// kTranslateY pixels, rounded toward 0; kRotate degrees counterclockwise; kBrightness, kColor,
/// kContrast and kSharpness the factor's difference from 1; kPosterize the bits to keep, 0 to 8;
/// kSolarize the smallest value that is inverted; kGaussianBlur a radius in pixels. Other
/// operations ignore the strength.
struct OperationAt {
  Operation operation = Operation::kIdentity;
  double magnitude = 0;
  bool operator==(const OperationAt&) const = default;
};

/// Applies an operation. Pixels outside the image count as black. The result is bitwise equal to
/// that of torchvision's _apply_op() on Pillow images; kGrayscale and kGaussianBlur are Pillow's
/// convert("L") and ImageFilter.GaussianBlur.
Image applied(Image image, const OperationAt& step, Neighbors neighbors = Neighbors::kNearest);

}  // namespace stages
