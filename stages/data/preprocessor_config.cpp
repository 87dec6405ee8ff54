#include "stages/data/preprocessor_config.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string>

#include <nlohmann/json.hpp>

namespace stages {
namespace {

using Json = nlohmann::ordered_json;

bool is_squeezed(const ImageDatasetOptions& options) {
  return options.resize.shape == ResizeShape::kSquare;
}

/// Returns Pillow's number for the filter.
int resample(Interpolation interpolation) {
  return interpolation == Interpolation::kBicubic ? 3 : 2;
}

Json square(int size) { return {{"height", size}, {"width", size}}; }

[[noreturn]] void refuse_preprocessing(const std::string& key, const nlohmann::json& value,
                                       const std::string& wanted) {
  throw std::invalid_argument("its '" + key + "' is " + value.dump() + ", but only " + wanted +
                              " is supported");
}

/// Returns the side length stored under `key` in a size, which may be a mapping or a plain number;
/// nullopt if there is none.
std::optional<int> length_at(const nlohmann::json& size, const char* key) {
  constexpr std::int64_t kMost = 8192;
  const nlohmann::json& length = size.is_object() ? size.value(key, nlohmann::json()) : size;
  if (!length.is_number_integer() || length < 1 || length > kMost) return std::nullopt;
  return length.get<int>();
}

/// Returns the side length of the size at `key`, which must be square.
int side_at(const nlohmann::json& config, const char* key) {
  const nlohmann::json size = config.value(key, nlohmann::json(224));
  const auto height = length_at(size, "height"), width = length_at(size, "width");
  if (!height || height != width) refuse_preprocessing(key, size, "a square");
  return *height;
}

std::array<double, 3> three_at(const nlohmann::json& config, const char* key,
                               std::array<double, 3> otherwise) {
  const nlohmann::json numbers = config.value(key, nlohmann::json(otherwise));
  const bool fits =
      numbers.is_array() && numbers.size() == 3 &&
      std::ranges::all_of(numbers, [](const nlohmann::json& one) { return one.is_number(); });
  if (!fits) refuse_preprocessing(key, numbers, "a list of three numbers");
  return numbers.get<std::array<double, 3>>();
}

/// Returns a fraction for which floor(crop / fraction) is `shortest`.
double crop_fraction(int crop, int shortest) {
  double share = static_cast<double>(crop) / shortest;
  while (std::floor(crop / share) < shortest) share = std::nextafter(share, 0.0);
  return share;
}

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

ImageDatasetOptions options_of_preprocessor(const nlohmann::json& config) {
  if (!config.is_object()) throw std::invalid_argument("it is not a JSON object");
  constexpr std::array<double, 3> kClipMean = {0.48145466, 0.4578275, 0.40821073},
                                  kClipDeviation = {0.26862954, 0.26130258, 0.27577711};
  for (const char* key : {"do_resize", "do_rescale", "do_normalize"}) {
    if (config.value(key, nlohmann::json(true)) != true)
      refuse_preprocessing(key, config[key], "true");
  }
  ImageDatasetOptions options;
  const nlohmann::json filter = config.value("resample", nlohmann::json(3));
  if (filter != 2 && filter != 3)
    refuse_preprocessing("resample", filter, "2 (bilinear) or 3 (bicubic)");
  options.resize.interpolation = filter == 3 ? Interpolation::kBicubic : Interpolation::kBilinear;
  options.mean = three_at(config, "image_mean", kClipMean);
  options.standard_deviation = three_at(config, "image_std", kClipDeviation);
  const nlohmann::json size = config.value("size", nlohmann::json(224));
  const bool crops = config.value("do_center_crop", nlohmann::json(true)) == true;
  const auto shortest = length_at(size, "shortest_edge");
  if (shortest && crops) {
    options.image_size = side_at(config, "crop_size");
    if (options.image_size > *shortest)
      refuse_preprocessing("crop_size", options.image_size, "a crop within the image");
    options.resize.crop_fraction = crop_fraction(options.image_size, *shortest);
    return options;
  }
  options.image_size = side_at(config, "size");
  if (shortest || (crops && side_at(config, "crop_size") != options.image_size))
    refuse_preprocessing("size", size, "a square or a shortest edge with a center crop");
  options.resize.shape = ResizeShape::kSquare;
  return options;
}

Json timm_preprocessing(const ImageDatasetOptions& options) {
  return {{"mean", options.mean},
          {"std", options.standard_deviation},
          {"interpolation",
           options.resize.interpolation == Interpolation::kBicubic ? "bicubic" : "bilinear"},
          {"crop_pct", options.resize.crop_fraction},
          {"crop_mode", is_squeezed(options) ? "squash" : "center"}};
}

std::vector<std::string> lost_in_preprocessor(const ImageDatasetOptions& options) {
  std::vector<std::string> lost;
  if (options.decode == Decode::kFast) {
    lost.emplace_back(
        "Training decoded JPEGs with `decode: fast`, but Pillow decodes every pixel, so "
        "probabilities differ slightly.");
  }
  if (options.resize.crop_offset == CropOffset::kRound && !is_squeezed(options)) {
    lost.emplace_back(
        "Training cropped with `crop_offset: round`; with the \"pil\" backend, the crop begins one "
        "pixel earlier for some image sizes.");
  }
  return lost;
}

}  // namespace stages
