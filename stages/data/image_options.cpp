#include "stages/data/image_options.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "runner/shared/stage/config_reader.h"
#include "stages/data/image_transform.h"

namespace stages {
namespace {

using runner::ConfigReader;

constexpr std::int64_t kUsualImageSize = 224;

constexpr std::array<std::pair<std::string_view, OnCorrupt>, 2> kOnCorrupt = {
    {{"stop", OnCorrupt::kStop}, {"skip", OnCorrupt::kSkip}}};

constexpr std::array<std::pair<std::string_view, Neighbors>, 2> kNeighbors = {
    {{"nearest", Neighbors::kNearest}, {"bilinear", Neighbors::kBilinear}}};

constexpr std::array<std::pair<std::string_view, RandomErasing::Fill>, 2> kFills = {
    {{"mean", RandomErasing::Fill::kMean}, {"noise", RandomErasing::Fill::kNoise}}};

void read_three(ConfigReader& reader, std::string_view key, std::array<double, 3>& field) {
  std::vector<double> numbers;
  reader.read(key, numbers);
  if (numbers.size() == field.size()) std::ranges::copy(numbers, field.begin());
}

/// Reads the option `key`, a list [smallest, largest].
void read_range(ConfigReader& reader, std::string_view key, double& smallest, double& largest) {
  std::vector<double> numbers;
  reader.read(key, numbers);
  if (numbers.size() != 2) return;
  smallest = numbers[0];
  largest = numbers[1];
}

using Automatic = AugmentPolicy::Kind;
constexpr std::array<std::pair<std::string_view, Automatic>, 4> kPolicies = {
    {{"rand_augment", Automatic::kRandAugment},
     {"trivial_augment_wide", Automatic::kTrivialAugmentWide},
     {"auto_augment", Automatic::kAutoAugment},
     {"augmix", Automatic::kAugMix}}};

/// Reads the automatic augmentation that the recipe chooses; the schema allows only one.
std::optional<AugmentPolicy> read_policy(ConfigReader& augment) {
  std::optional<AugmentPolicy> chosen;
  for (const auto& [name, kind] : kPolicies) {
    ConfigReader* const reader = section_or_null(augment, name);
    if (!reader) continue;
    AugmentPolicy& policy = chosen.emplace(AugmentPolicy{.kind = kind});
    if (kind == Automatic::kRandAugment) {
      reader->read("num_ops", policy.num_ops);
      reader->read("magnitude", policy.magnitude);
    }
    if (kind == Automatic::kRandAugment || kind == Automatic::kTrivialAugmentWide)
      reader->read("num_magnitude_bins", policy.num_magnitude_bins);
    if (kind == Automatic::kAugMix) {
      reader->read("severity", policy.severity);
      reader->read("mixture_width", policy.mixture_width);
      runner::read_or_auto(*reader, "chain_depth", policy.chain_depth);
      reader->read("alpha", policy.alpha);
      reader->read("all_ops", policy.all_ops);
    }
    if (kind == Automatic::kAutoAugment) reader->raw("policy");  // there is only one policy
    policy.neighbors = runner::choice<Neighbors>(*reader, "interpolation", kNeighbors);
  }
  bool three = false;
  augment.read("three_augment", three);
  if (three) chosen.emplace(AugmentPolicy{.kind = Automatic::kThreeAugment});
  return chosen;
}

void read_final_augment(ConfigReader& augment, FinalAugment& last) {
  last.policy = read_policy(augment);
  augment.read("grayscale", last.grayscale);
  if (ConfigReader* blur = section_or_null(augment, "gaussian_blur")) {
    RandomBlur& random = last.blur.emplace();
    blur->read("probability", random.probability);
    read_range(*blur, "radius", random.smallest_radius, random.largest_radius);
  }
  if (ConfigReader* erasing = section_or_null(augment, "random_erasing")) {
    RandomErasing& random = last.erasing.emplace();
    erasing->read("probability", random.probability);
    read_range(*erasing, "scale", random.smallest_area, random.largest_area);
    read_range(*erasing, "ratio", random.narrowest, random.widest);
    random.fill = runner::choice<RandomErasing::Fill>(*erasing, "fill", kFills);
  }
}

void read_dataset_options(ConfigReader& reader, ImageDatasetOptions& images) {
  images.decode = runner::choice<Decode>(reader, "decode", kDecodes);
  images.on_corrupt = runner::choice<OnCorrupt>(reader, "on_corrupt", kOnCorrupt);
  std::optional<std::int64_t> image_size;  // set in a resolved recipe
  runner::read_or_auto(reader, "image_size", image_size);
  images.image_size = static_cast<int>(image_size.value_or(kUsualImageSize));

  ConfigReader& resize = reader.section("resize");
  images.resize.interpolation =
      runner::choice<Interpolation>(resize, "interpolation", kInterpolations);
  images.resize.crop_offset = runner::choice<CropOffset>(resize, "crop_offset", kCropOffsets);
  images.resize.shape = runner::choice<ResizeShape>(resize, "shape", kResizeShapes);
  resize.read("crop_fraction", images.resize.crop_fraction);

  ConfigReader& augment = reader.section("augment");
  augment.read("horizontal_flip", images.augment.horizontal_flip);
  augment.read("vertical_flip", images.augment.vertical_flip);
  augment.read("brightness", images.augment.brightness);
  augment.read("contrast", images.augment.contrast);
  augment.read("saturation", images.augment.saturation);
  augment.read("hue", images.augment.hue);
  augment.read("rotation", images.augment.rotation);
  augment.read("translation", images.augment.translation);
  augment.read("shear", images.augment.shear);
  augment.read("zoom", images.augment.zoom);
  if (ConfigReader* crop = section_or_null(augment, "random_resized_crop")) {
    RandomResizedCrop& random = images.augment.random_resized_crop.emplace();
    read_range(*crop, "scale", random.smallest_area, random.largest_area);
    read_range(*crop, "ratio", random.narrowest, random.widest);
  }

  read_final_augment(augment, images.augment.last);

  const runner::Value* const normalize = reader.raw("normalize");
  if (normalize && normalize->map()) {  // still auto in data checks, which do not normalize
    ConfigReader& section = reader.section("normalize");
    read_three(section, "mean", images.mean);
    read_three(section, "std", images.standard_deviation);
  }

  ConfigReader& loader = reader.section("loader");
  loader.read("workers", images.loader.workers);
  loader.read("prefetch", images.loader.prefetch);
  loader.read("pinned", images.loader.pinned);
  loader.read("drop_last", images.loader.drop_last);
}

}  // namespace

ConfigReader* section_or_null(ConfigReader& reader, std::string_view key) {
  const runner::Value* value = reader.raw(key);
  return value && value->is_null() ? nullptr : &reader.section(key);
}

ImageOptions read_image_options(ConfigReader& reader) {
  ImageOptions options;
  reader.read("root", options.root);
  reader.read("allow_outside", options.allow_outside);
  runner::read_or_auto(reader, "cache_mib", options.cache_mib);
  read_dataset_options(reader, options.images);
  return options;
}

}  // namespace stages
