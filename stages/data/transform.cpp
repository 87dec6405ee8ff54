#include "stages/data/transform.h"

#include <algorithm>
#include <cmath>

namespace stages {
namespace {

int centered(std::int64_t outer, int inner, CropOffset offset) {
  const std::int64_t left_over = outer - inner;
  const std::int64_t half = left_over / 2;
  switch (offset) {
    case CropOffset::kFloor:
      return static_cast<int>(half);
    case CropOffset::kRound:
      return static_cast<int>(left_over % 2 != 0 && half % 2 != 0 ? half + 1 : half);
  }
  return 0;
}

/// Returns a region of random area and aspect ratio, or a centered one if none of ten draws fits in
/// the image.
Box random_part(int width, int height, const RandomResizedCrop& crop, Random& random) {
  const double area = static_cast<double>(width) * height;
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double wanted = area * random.uniform(crop.smallest_area, crop.largest_area);
    const double ratio = std::exp(random.uniform(std::log(crop.narrowest), std::log(crop.widest)));
    const double w = std::nearbyint(std::sqrt(wanted * ratio)),
                 h = std::nearbyint(std::sqrt(wanted / ratio));
    if (w < 1 || h < 1 || w > width || h > height) continue;
    Box box{0, 0, static_cast<int>(w), static_cast<int>(h)};
    box.top = static_cast<int>(random.below(height - box.height + 1));
    box.left = static_cast<int>(random.below(width - box.width + 1));
    return box;
  }
  const double ratio = static_cast<double>(width) / height;
  Box box{0, 0, width, height};
  if (ratio < crop.narrowest)
    box.height = std::clamp(static_cast<int>(std::nearbyint(width / crop.narrowest)), 1, height);
  else if (ratio > crop.widest)
    box.width = std::clamp(static_cast<int>(std::nearbyint(height * crop.widest)), 1, width);
  box.left = (width - box.width) / 2;
  box.top = (height - box.height) / 2;
  return box;
}

}  // namespace

Cut evaluation_cut(int width, int height, int image_size, const ResizeOptions& options) {
  Cut cut{{0, 0, width, height}, image_size, image_size, {0, 0, image_size, image_size}};
  if (options.shape == ResizeShape::kSquare) return cut;
  const auto side = static_cast<std::int64_t>(std::floor(image_size / options.crop_fraction));
  const std::int64_t shorter = std::min(width, height), longer = std::max(width, height);
  (width < height ? cut.width : cut.height) = side;
  (width < height ? cut.height : cut.width) = side * longer / shorter;
  cut.window.left = centered(cut.width, image_size, options.crop_offset);
  cut.window.top = centered(cut.height, image_size, options.crop_offset);
  return cut;
}

Cut training_cut(int width, int height, int image_size, const ResizeOptions& options,
                 const AugmentOptions& augment, Random& random) {
  Cut cut = evaluation_cut(width, height, image_size, options);
  if (augment.random_resized_crop) {
    const Box part = random_part(width, height, *augment.random_resized_crop, random);
    cut = {part, image_size, image_size, {0, 0, image_size, image_size}};
  }
  cut.mirrored = random.uniform() < augment.horizontal_flip;
  return cut;
}

Cut at_size(const Cut& cut, const ImageHeader& header, const Image& decoded) {
  if (decoded.width == header.shown_width() && decoded.height == header.shown_height()) return cut;
  const double across = static_cast<double>(decoded.width) / header.shown_width();
  const double down = static_cast<double>(decoded.height) / header.shown_height();
  Cut result = cut;
  Box& from = result.from;
  from.left = std::min(static_cast<int>(std::nearbyint(cut.from.left * across)), decoded.width - 1);
  from.top = std::min(static_cast<int>(std::nearbyint(cut.from.top * down)), decoded.height - 1);
  from.width = std::clamp(static_cast<int>(std::nearbyint(cut.from.width * across)), 1,
                          decoded.width - from.left);
  from.height = std::clamp(static_cast<int>(std::nearbyint(cut.from.height * down)), 1,
                           decoded.height - from.top);
  return result;
}

namespace {

/// Returns a random rectangle to erase; nullopt if none of ten draws fits in the image.
std::optional<Box> erased_box(const RandomErasing& erasing, int size, Random& random) {
  const double area = static_cast<double>(size) * size;
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double wanted = area * random.uniform(erasing.smallest_area, erasing.largest_area);
    const double ratio =
        std::exp(random.uniform(std::log(erasing.narrowest), std::log(erasing.widest)));
    const int height = static_cast<int>(std::nearbyint(std::sqrt(wanted * ratio))),
              width = static_cast<int>(std::nearbyint(std::sqrt(wanted / ratio)));
    if (height >= size || width >= size) continue;
    const int top = static_cast<int>(random.below(size - height + 1));
    return Box{static_cast<int>(random.below(size - width + 1)), top, width, height};
  }
  return {};
}

}  // namespace

DrawnFinal drawn_final(const FinalAugment& options, int size, Random& random) {
  DrawnFinal drawn;
  if (options.policy) drawn.policy = drawn_policy(*options.policy, size, size, random);
  if (options.grayscale > 0 && random.uniform() < options.grayscale)
    drawn.steps.push_back({Operation::kGrayscale});
  if (options.blur && random.uniform() < options.blur->probability)
    drawn.steps.push_back({Operation::kGaussianBlur, random.uniform(options.blur->smallest_radius,
                                                                    options.blur->largest_radius)});
  if (options.erasing && random.uniform() < options.erasing->probability)
    drawn.erased = erased_box(*options.erasing, size, random);
  return drawn;
}

Image apply(const Cut& cut, const Image& image, Interpolation interpolation) {
  return resize(image, cut.from, cut.width, cut.height, cut.window, interpolation);
}

}  // namespace stages
