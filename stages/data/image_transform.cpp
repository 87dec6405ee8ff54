#include "stages/data/image_transform.h"

#include <algorithm>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "runner/shared/value/parse_json.h"

namespace stages {
namespace {

using nlohmann::json;

// The bounds in schemas/images.schema.json.
constexpr double kSmallestImage = 8, kLargestImage = 4096, kLargestMean = 1000,
                 kSmallestDeviation = 1e-6, kLargestDeviation = 1000, kLargestResized = 1e6;

template <typename Words, typename T>
std::string word_of(const Words& words, T value) {
  return std::string(
      std::ranges::find(words, value, [](const auto& item) { return item.second; })->first);
}

[[noreturn]] void refuse_transform(const std::string& key, const std::string& what) {
  throw std::invalid_argument("its '" + key + "' " + what);
}

const json& member(const json& object, const std::string& key) {
  if (!object.is_object() || !object.contains(key)) refuse_transform(key, "is missing");
  return object[key];
}

double number_between(const json& value, double smallest, double largest, const std::string& key) {
  // This form of the comparison also rejects NaN.
  if (value.is_number() && value.get<double>() >= smallest && value.get<double>() <= largest)
    return value.get<double>();
  refuse_transform(key, "is out of range");
}

template <typename Words>
auto value_of(const Words& words, const json& object, const std::string& key) {
  const json& word = member(object, key);
  const auto* const found = std::ranges::find_if(words, [&](const auto& item) {
    return word.is_string() && word.get_ref<const std::string&>() == item.first;
  });
  if (found == words.end()) refuse_transform(key, "is unknown");
  return found->second;
}

void read_three(const json& list, double smallest, double largest, const std::string& key,
                std::array<double, 3>& numbers) {
  if (!list.is_array() || list.size() != numbers.size())
    refuse_transform(key, "is not a list of three numbers");
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = number_between(list[i], smallest, largest, key);
}

json preprocessing_json(const Preprocessing& steps) {
  json document = json::object();
  if (const auto& step = steps.crop_to_disc)
    document["crop_to_disc"] = {{"threshold", step->threshold}};
  if (const auto& step = steps.flatten_sharpen) {
    document["flatten_sharpen"] = {{"kernel_size", step->kernel_size},
                                   {"brightness", step->brightness},
                                   {"contrast", step->contrast},
                                   {"sharpen", step->sharpen}};
  }
  if (const auto& step = steps.clahe)
    document["clahe"] = {{"clip_limit", step->clip_limit}, {"tiles", {step->columns, step->rows}}};
  return document;
}

int integer_between(const json& value, double smallest, double largest, const std::string& key) {
  if (!value.is_number_integer()) refuse_transform(key, "is not an integer");
  return static_cast<int>(number_between(value, smallest, largest, key));
}

/// Reads the preprocessing steps. The bounds are the same as in schemas/data.
Preprocessing preprocessing_from(const json& document) {
  Preprocessing steps;
  if (!document.is_object()) refuse_transform("preprocess", "is not a mapping");
  for (const auto& [name, step] : document.items()) {
    if (name == "crop_to_disc") {
      steps.crop_to_disc = {.threshold =
                                number_between(member(step, "threshold"), 0, 1, "threshold")};
    } else if (name == "flatten_sharpen") {
      steps.flatten_sharpen = {
          .kernel_size = integer_between(member(step, "kernel_size"), 1, 1000, "kernel_size"),
          .brightness = number_between(member(step, "brightness"), -255, 255, "brightness"),
          .contrast = number_between(member(step, "contrast"), 0, 10, "contrast"),
          .sharpen = number_between(member(step, "sharpen"), 0, 10, "sharpen")};
    } else if (name == "clahe") {
      const json& tiles = member(step, "tiles");
      if (!tiles.is_array() || tiles.size() != 2)
        refuse_transform("tiles", "is not a list of two numbers");
      steps.clahe = {
          .clip_limit = number_between(member(step, "clip_limit"), 0, 1000, "clip_limit"),
          .columns = integer_between(tiles[0], 1, 64, "tiles"),
          .rows = integer_between(tiles[1], 1, 64, "tiles")};
    } else {
      refuse_transform(name, "is unknown");
    }
  }
  return steps;
}

}  // namespace

std::string transform_json(const ImageDatasetOptions& options) {
  const ResizeOptions& resize = options.resize;
  json document{{"kind", "image"},
                {"image_size", options.image_size},
                {"decode", word_of(kDecodes, options.decode)},
                {"resize",
                 {{"interpolation", word_of(kInterpolations, resize.interpolation)},
                  {"crop_fraction", resize.crop_fraction},
                  {"crop_offset", word_of(kCropOffsets, resize.crop_offset)},
                  {"shape", word_of(kResizeShapes, resize.shape)}}},
                {"normalize", {{"mean", options.mean}, {"std", options.standard_deviation}}}};
  if (options.preprocessing.does_anything())
    document["preprocess"] = preprocessing_json(options.preprocessing);
  if (options.subject) document["subject"] = options.subject->name;
  return document.dump();
}

ImageDatasetOptions transform_from_json(std::string_view text,
                                        std::span<const ImageSubject* const> subjects) {
  const json document = runner::parse_json<json>(text);
  if (member(document, "kind") != "image") refuse_transform("kind", "is not 'image'");
  ImageDatasetOptions options;
  options.image_size =
      integer_between(member(document, "image_size"), kSmallestImage, kLargestImage, "image_size");
  options.decode = value_of(kDecodes, document, "decode");
  const json& resize = member(document, "resize");
  options.resize.interpolation = value_of(kInterpolations, resize, "interpolation");
  options.resize.crop_offset = value_of(kCropOffsets, resize, "crop_offset");
  options.resize.shape = value_of(kResizeShapes, resize, "shape");
  const bool is_square = options.resize.shape == ResizeShape::kSquare;
  options.resize.crop_fraction =
      number_between(member(resize, "crop_fraction"),
                     is_square ? 1 : options.image_size / kLargestResized, 1, "crop_fraction");
  const json& normalize = member(document, "normalize");
  read_three(member(normalize, "mean"), -kLargestMean, kLargestMean, "mean", options.mean);
  read_three(member(normalize, "std"), kSmallestDeviation, kLargestDeviation, "std",
             options.standard_deviation);
  if (document.contains("preprocess"))
    options.preprocessing = preprocessing_from(document["preprocess"]);
  if (options.preprocessing.does_anything() && options.decode == Decode::kFast)
    refuse_transform("decode", "is 'fast', but preprocessing needs the image at full size");
  if (document.contains("subject")) {
    for (const ImageSubject* subject : subjects)
      if (document["subject"] == subject->name) options.subject = subject;
  }
  return options;
}

}  // namespace stages
