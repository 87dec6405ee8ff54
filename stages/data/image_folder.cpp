#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "runner/stage/config_reader.h"
#include "runner/stage/plan_context.h"
#include "runner/stage/run_context.h"
#include "runner/stage/stage.h"
#include "stages/data/image_parts.h"
#include "stages/data/make_image_folder.h"
#include "stages/data/shapes.h"

namespace stages {
namespace {

namespace fs = std::filesystem;
using runner::ConfigReader;
using runner::ErrorCode;
using runner::RunContext;
using runner::StageError;

struct ImageFolderConfig {
  ImageOptions images;
  SplitOptions split;
  std::optional<std::int64_t> split_seed;
  std::optional<MadeImages> make;
};

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
    config.images = read_image_options(reader);
    read_split(reader.section("split"), config);
    if (ConfigReader* make = section_or_null(reader, "make")) read_make(*make, config.make.emplace());

    std::optional<ImageList> list;
    std::error_code error;
    const std::string& root = config.images.root;
    const bool exists = fs::exists(fs::symlink_status(root, error));
    if (exists && config.make) {
      if (const auto problem = differs(root, *config.make))
        reader.fail("make", problem->code, problem->message, problem->help);
    }
    if (exists || !config.make) {
      auto listed = list_images(root, config.images.allow_outside);
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

  /// Images that are still to be made are planned by their numbers.
  std::optional<runner::Outputs> plan(const runner::Inputs&, runner::PlanContext& context) override {
    if (list_) return std::nullopt;
    return parts_of(to_be_made(), context);
  }

  runner::Outputs run(const runner::Inputs&, RunContext& context) override {
    if (!list_) list_ = make(context);
    return parts_of(*list_, context);
  }

  std::string fingerprint() const override { return list_ ? stages::fingerprint(*list_) : ""; }
  bool uses_seed() const override {
    const bool splits = !list_ || !list_->divided;
    return changes_images(config_.images.images.augment) || (splits && !config_.split_seed);
  }

 private:
  runner::Outputs parts_of(ImageList images, RunContext& context) const {
    auto list = std::make_shared<ImageList>(std::move(images));
    if (list->divided) {
      if (!list->ignored.empty()) context.say("not used, since there is a folder 'train': " + joined(list->ignored));
    } else {
      split(*list, config_.split,
            config_.split_seed ? static_cast<std::uint64_t>(*config_.split_seed) : context.seed());
    }
    return image_parts(std::move(list), config_.images, context);
  }

  /// The list that make() will find.
  ImageList to_be_made() const {
    ImageList list{.root = config_.images.root};
    const auto shapes = shape_names().first(static_cast<std::size_t>(config_.make->classes));
    list.classes.assign(shapes.begin(), shapes.end());
    std::ranges::sort(list.classes);
    for (std::size_t label = 0; label < list.classes.size(); ++label) {
      for (std::int64_t i = 0; i < config_.make->per_class; ++i)
        list[Part::kTrain].push_back(
            {list.classes[label] + "/" + padded(i, 5) + ".jpg", static_cast<std::int64_t>(label)});
    }
    return list;
  }

  ImageList make(RunContext& context) const {
    context.say("making " + std::to_string(config_.make->classes * config_.make->per_class) + " images in '" +
                config_.images.root + "'");
    make_image_folder(
        config_.images.root, *config_.make,
        {.progress = [&](std::int64_t done,
                         std::int64_t all) { context.progress({.phase = "make data", .step = done, .steps = all}); },
         .cancelled = [&] { return context.cancelled(); }});
    auto listed = list_images(config_.images.root, config_.images.allow_outside);
    if (!listed) throw StageError(listed.errors().front().code, listed.errors().front().message).at("/root");
    return *std::move(listed);
  }

  static std::string joined(const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
    return text;
  }

  const ImageFolderConfig config_;
  std::optional<ImageList> list_;  // as found; made by run() where there was none
};

}  // namespace

extern const runner::StageKind kDataImageFolder = {.name = "data.image_folder", .create = ImageFolderStage::create};

}  // namespace stages
