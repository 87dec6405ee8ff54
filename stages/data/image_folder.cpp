#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "runner/shared/disk/turn.h"
#include "stages/data/image_stage.h"
#include "stages/data/make_image_folder.h"
#include "stages/data/shapes.h"
#include "stages/text/class_text.h"

namespace stages {
namespace {

namespace fs = std::filesystem;
using runner::ConfigReader;

std::optional<MadeImages> read_make(ConfigReader& reader) {
  ConfigReader* const make = section_or_null(reader, "make");
  if (!make) return std::nullopt;
  MadeImages images;
  make->read("classes", images.classes);
  make->read("per_class", images.per_class);
  make->read("size", images.size);
  make->read("seed", images.seed);
  return images;
}

/// Lets texts call a class what its folder is called, in words.
ImageList with_names(ImageList list) {
  for (const std::string& folder : list.classes) list.class_words.push_back(words_of_folder(folder));
  add_names(list, list.class_words);
  return list;
}

/// The list of the images that make_image_folder() will make.
ImageList to_be_made(const std::string& root, const MadeImages& images) {
  ImageList list{.root = root};
  const auto shapes = shape_names().first(static_cast<std::size_t>(images.classes));
  list.classes.assign(shapes.begin(), shapes.end());
  std::ranges::sort(list.classes);
  for (std::size_t label = 0; label < list.classes.size(); ++label) {
    for (std::int64_t i = 0; i < images.per_class; ++i)
      list[Part::kTrain].push_back(
          {list.classes[label] + "/" + padded(i, 5) + ".jpg", static_cast<std::int64_t>(label)});
  }
  return list;
}

/// Runs that start together, as those of a sweep, make them once.
void make_in(const std::string& root, const MadeImages& images, runner::RunContext& context) {
  fs::path folder = fs::absolute(root).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();  // it ends in a slash
  const auto turn = runner::Turn::take(
      folder.parent_path() / ("." + folder.filename().string() + ".turn"), [&] { return context.cancelled(); },
      [&] { context.say("waiting for another run, which makes the images in '" + root + "'"); });
  if (context.cancelled()) throw runner::Cancelled{};
  if (turn && fs::exists(root) && !differs(root, images)) return;
  context.say("making " + std::to_string(images.count()) + " images in '" + root + "'");
  make_image_folder(
      root, images,
      {.progress = [&](std::int64_t done,
                       std::int64_t all) { context.progress({.phase = "make data", .step = done, .steps = all}); },
       .cancelled = [&] { return context.cancelled(); }});
}

runner::Result<std::unique_ptr<runner::Stage>> create_image_folder(ConfigReader& reader) {
  const ImageOptions options = read_image_options(reader);
  const std::string& root = options.root;
  ImageSource source;
  source.list = [root, outside = options.allow_outside]() -> runner::Result<ImageList> {
    auto list = list_images(root, outside);
    if (!list) return list;
    return with_names(*std::move(list));
  };
  source.captions = read_captions(reader, {"name"});
  read_split(reader.section("split"), source);
  if (const auto make = read_make(reader)) {
    std::error_code error;
    if (fs::exists(fs::symlink_status(root, error))) {
      if (const auto problem = differs(root, *make))
        reader.fail("make", problem->code, problem->message, problem->help);
    } else {
      source.obtain = [root, make](runner::RunContext& context) { make_in(root, *make, context); };
      source.foresee = [root, make] { return with_names(to_be_made(root, *make)); };
    }
  }
  return image_stage(reader, options, std::move(source));
}

}  // namespace

extern const runner::StageKind kDataImageFolder = {.name = "data.image_folder", .create = create_image_folder};

}  // namespace stages
