#include "stages/data/preprocessor_config.h"

#include <cmath>

#include <nlohmann/json.hpp>

namespace stages {
namespace {

using Json = nlohmann::ordered_json;

bool is_squeezed(const ImageDatasetOptions& options) { return options.resize.shape == ResizeShape::kSquare; }

/// Pillow's numbers of its filters.
int resample(Interpolation interpolation) { return interpolation == Interpolation::kBicubic ? 3 : 2; }

Json square(int size) { return {{"height", size}, {"width", size}}; }

}  // namespace

Json preprocessor_config(const ImageDatasetOptions& options) {
  const int side = options.image_size;
  const auto shortest = static_cast<std::int64_t>(std::floor(side / options.resize.crop_fraction));
  return {{"image_processor_type", "CLIPImageProcessor"},
          {"do_convert_rgb", true},
          {"do_resize", true},
          {"size", is_squeezed(options) ? square(side) : Json{{"shortest_edge", shortest}}},
          {"resample", resample(options.resize.interpolation)},
          {"do_center_crop", !is_squeezed(options)},
          {"crop_size", square(side)},
          {"do_rescale", true},
          {"rescale_factor", 1.0 / 255},
          {"do_normalize", true},
          {"image_mean", options.mean},
          {"image_std", options.standard_deviation}};
}

Json timm_preprocessing(const ImageDatasetOptions& options) {
  return {{"mean", options.mean},
          {"std", options.standard_deviation},
          {"interpolation", options.resize.interpolation == Interpolation::kBicubic ? "bicubic" : "bilinear"},
          {"crop_pct", options.resize.crop_fraction},
          {"crop_mode", is_squeezed(options) ? "squash" : "center"}};
}

std::vector<std::string> lost_in_preprocessor(const ImageDatasetOptions& options) {
  std::vector<std::string> lost;
  if (options.decode == Decode::kFast) {
    lost.emplace_back(
        "The training decoded JPEGs with `decode: fast`; Pillow decodes every pixel, so that probabilities "
        "differ slightly.");
  }
  if (options.resize.crop_offset == CropOffset::kRound && !is_squeezed(options)) {
    lost.emplace_back(
        "The training cropped with `crop_offset: round`; with the backend \"pil\" the crop of some sizes "
        "begins a pixel earlier.");
  }
  return lost;
}

}  // namespace stages
