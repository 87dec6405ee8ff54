#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include <torch/torch.h>

#include "runner/config_reader.h"
#include "runner/run_context.h"
#include "runner/stage.h"
#include "stages/data/image_dataset.h"
#include "stages/data/image_transform.h"
#include "stages/data/make_image_folder.h"
#include "stages/stages.h"

namespace stages {
namespace {

namespace fs = std::filesystem;
using runner::ConfigReader;
using runner::ErrorCode;
using runner::RunContext;
using runner::StageError;

constexpr std::array<std::pair<std::string_view, OnCorrupt>, 2> kOnCorrupt = {
    {{"stop", OnCorrupt::kStop}, {"skip", OnCorrupt::kSkip}}};

struct ImageFolderConfig {
  std::string root;
  bool allow_outside = false;
  SplitOptions split;
  std::optional<std::int64_t> split_seed;
  std::int64_t cache_mib = 0;
  std::optional<MadeImages> make;
  ImageDatasetOptions images;
};

/// Reads one of the words that the schema allows.
template <typename T, std::size_t size>
void read_word(ConfigReader& reader, std::string_view key,
               const std::array<std::pair<std::string_view, T>, size>& words, T& field) {
  std::string word;
  reader.read(key, word);
  const auto* const found = std::ranges::find(words, word, [](const auto& item) { return item.first; });
  if (found != words.end()) field = found->second;
}

void read_three(ConfigReader& reader, std::string_view key, std::array<double, 3>& field) {
  std::vector<double> numbers;
  reader.read(key, numbers);
  if (numbers.size() == field.size()) std::ranges::copy(numbers, field.begin());
}

/// Reads [smallest, largest].
void read_range(ConfigReader& reader, std::string_view key, double& smallest, double& largest) {
  std::vector<double> numbers;
  reader.read(key, numbers);
  if (numbers.size() != 2) return;
  smallest = numbers[0];
  largest = numbers[1];
  if (smallest <= largest) return;
  reader.fail(key, ErrorCode::kOptionConflict, "'" + std::string(key) + "' begins with the larger number",
              "write the smaller one first");
}

/// The section `key` unless it is null.
ConfigReader* section_or_null(ConfigReader& reader, std::string_view key) {
  const runner::Value* value = reader.raw(key);
  return value && value->is_null() ? nullptr : &reader.section(key);
}

void read_images(ConfigReader& reader, ImageDatasetOptions& images) {
  read_word(reader, "decode", kDecodes, images.decode);
  read_word(reader, "on_corrupt", kOnCorrupt, images.on_corrupt);
  std::int64_t image_size = 0;
  reader.read("image_size", image_size);
  images.image_size = static_cast<int>(image_size);

  ConfigReader& resize = reader.section("resize");
  read_word(resize, "interpolation", kInterpolations, images.resize.interpolation);
  read_word(resize, "crop_offset", kCropOffsets, images.resize.crop_offset);
  read_word(resize, "shape", kResizeShapes, images.resize.shape);
  resize.read("crop_fraction", images.resize.crop_fraction);
  if (images.resize.shape == ResizeShape::kSquare && images.resize.crop_fraction != 1) {
    resize.fail("crop_fraction", ErrorCode::kOptionConflict,
                "shape: square cuts nothing off, so crop_fraction must be 1",
                "set crop_fraction: 1.0, or shape: shortest_side");
  } else if (image_size / images.resize.crop_fraction > 1e6) {
    resize.fail("crop_fraction", ErrorCode::kOptionConflict, "image_size / crop_fraction is more than a million pixels",
                "raise crop_fraction");
  }

  ConfigReader& augment = reader.section("augment");
  augment.read("horizontal_flip", images.augment.horizontal_flip);
  if (ConfigReader* crop = section_or_null(augment, "random_resized_crop")) {
    RandomResizedCrop& random = images.augment.random_resized_crop.emplace();
    read_range(*crop, "scale", random.smallest_area, random.largest_area);
    read_range(*crop, "ratio", random.narrowest, random.widest);
  }

  ConfigReader& normalize = reader.section("normalize");
  read_three(normalize, "mean", images.mean);
  read_three(normalize, "std", images.standard_deviation);

  ConfigReader& loader = reader.section("loader");
  loader.read("workers", images.loader.workers);
  loader.read("prefetch", images.loader.prefetch);
  loader.read("pinned", images.loader.pinned);
  loader.read("drop_last", images.loader.drop_last);
}

void read_split(ConfigReader& split, ImageFolderConfig& config) {
  split.read("train", config.split.train);
  split.read("validation", config.split.validation);
  split.read("test", config.split.test);
  split.read("seed", config.split_seed);
  if (config.split.train + config.split.validation + config.split.test > 1 + 1e-9) {
    split.fail("train", ErrorCode::kOptionConflict,
               "the shares for training, validation and test add up to more than 1",
               "lower one of split.train, split.validation and split.test");
  }
}

void read_make(ConfigReader& make, MadeImages& images) {
  make.read("classes", images.classes);
  make.read("per_class", images.per_class);
  make.read("size", images.size);
  make.read("seed", images.seed);
}

class ImageFolderStage : public runner::Stage {
 public:
  static runner::Result<std::unique_ptr<runner::Stage>> create(ConfigReader& reader) {
    ImageFolderConfig config;
    reader.read("root", config.root);
    reader.read("allow_outside", config.allow_outside);
    reader.read("cache_mib", config.cache_mib);
    read_images(reader, config.images);
    read_split(reader.section("split"), config);
    if (ConfigReader* make = section_or_null(reader, "make")) read_make(*make, config.make.emplace());

    std::optional<ImageList> list;
    std::error_code error;
    const bool exists = fs::exists(fs::symlink_status(config.root, error));
    if (exists && config.make) {
      if (const auto problem = differs(config.root, *config.make))
        reader.fail("make", problem->code, problem->message, problem->help);
    }
    if (exists || !config.make) {
      auto listed = list_images(config.root, config.allow_outside);
      if (listed) list = *std::move(listed);
      else
        for (const runner::Diagnostic& problem : listed.errors())
          reader.fail("root", problem.code, problem.message, problem.help);
    }
    if (auto errors = reader.finish(); !errors.empty()) return errors;
    return std::unique_ptr<runner::Stage>(std::make_unique<ImageFolderStage>(std::move(config), std::move(list)));
  }

  /// Without a list the folder is to be made first.
  ImageFolderStage(ImageFolderConfig config, std::optional<ImageList> list)
      : config_(std::move(config)), list_(std::move(list)) {}

  runner::Outputs run(const runner::Inputs&, RunContext& context) override {
    auto list = std::make_shared<ImageList>(list_ ? *list_ : make(context));
    if (list->divided) {
      if (!list->ignored.empty()) context.say("not used, beside the folder 'train': " + joined(list->ignored));
    } else {
      split(*list, config_.split,
            config_.split_seed ? static_cast<std::uint64_t>(*config_.split_seed) : context.seed());
    }
    describe(*list, context);

    ImageDatasetOptions images = config_.images;
    if (images.loader.pinned && !(context.device().starts_with("cuda") && torch::cuda::is_available())) {
      context.say("loader.pinned has no effect: nothing is copied to a GPU");
      images.loader.pinned = false;
    }
    const auto cache = config_.cache_mib > 0 ? std::make_shared<ImageCache>(config_.cache_mib << 20) : nullptr;
    const auto part = [&](Part part) {
      return std::make_shared<const ImageDataset>(list, part, images, context.seed(), cache);
    };
    runner::Outputs outputs = {{"train", part(Part::kTrain)}, {"test", part(Part::kTest)}};
    // Without images there is nothing to validate on; an empty test set stays, so that who needs it can say so.
    if (!(*list)[Part::kValidation].empty()) outputs["validation"] = part(Part::kValidation);
    return outputs;
  }

 private:
  ImageList make(RunContext& context) const {
    context.say("making " + std::to_string(config_.make->classes * config_.make->per_class) + " images in '" +
                config_.root + "'");
    make_image_folder(
        config_.root, *config_.make,
        {.progress = [&](std::int64_t done,
                         std::int64_t all) { context.progress({.phase = "make data", .step = done, .steps = all}); },
         .cancelled = [&] { return context.cancelled(); }});
    auto listed = list_images(config_.root, config_.allow_outside);
    if (!listed) throw StageError(listed.errors().front().code, "/root", listed.errors().front().message);
    return *std::move(listed);
  }

  static void describe(const ImageList& list, RunContext& context) {
    const auto count = [&](Part part) { return std::to_string(list[part].size()); };
    const std::string line = std::to_string(list.classes.size()) + " classes; " + count(Part::kTrain) +
                             " images for training, " + count(Part::kValidation) + " for validation, " +
                             count(Part::kTest) + " for test";
    context.say(line);
  }

  static std::string joined(const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
    return text;
  }

  const ImageFolderConfig config_;
  const std::optional<ImageList> list_;
};

}  // namespace

const runner::StageKind kDataImageFolder = {.name = "data.image_folder", .create = ImageFolderStage::create};

}  // namespace stages
