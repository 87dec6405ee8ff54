#include "stages/data/image_folder.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/shared/disk/descriptor.h"
#include "runner/shared/disk/new_file.h"
#include "runner/shared/text/join.h"
#include "runner/shared/value/parse_json.h"
#include "stages/data/folder_labels.h"
#include "stages/data/image_groups.h"
#include "stages/data/image_stage.h"
#include "stages/data/image_writer.h"
#include "stages/data/shapes.h"
#include "stages/text/class_text.h"
#include "stages/text/expression.h"

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

/// Derives the name that captions use for each class from its folder name.
ImageList with_names(ImageList list) {
  for (const std::string& folder : list.classes)
    list.class_words.push_back(words_of_folder(folder));
  add_names(list, list.class_words);
  return list;
}

/// Reads the pattern by which file names identify groups. Sets `text` to the option's value.
std::shared_ptr<const Expression> read_group_pattern(ConfigReader& reader,
                                                     std::optional<std::string>& text) {
  reader.read("group_pattern", text);
  if (!text) return nullptr;
  try {
    auto pattern = std::make_shared<const Expression>(*text, Expression::Extent::kAnyPart);
    if (pattern->has_groups()) return pattern;
    throw std::invalid_argument(
        "it has no group: put the part that identifies the group in parentheses");
  } catch (const std::invalid_argument& error) {
    reader.fail(
        "group_pattern", runner::ErrorCode::kBadPattern,
        "'" + *text + "' is not a valid pattern for groups: " + error.what(),
        "write a regular expression such as '^([^_]+)_': its first capturing group, or the one "
        "named 'group', must match the part that identifies the group");
    return nullptr;
  }
}

/// How to list a root folder that contains class folders.
struct FolderListing {
  std::string root;
  bool allow_outside = false, is_multi_label = false;
  std::shared_ptr<const Expression> group_pattern;  // null: images have no groups
};

runner::Result<ImageList> listed_folders(const FolderListing& how) {
  auto list = list_images(how.root, how.allow_outside);
  if (list && how.is_multi_label) list = with_folder_labels(*std::move(list));
  if (!list) return list;
  if (how.group_pattern) {
    runner::Diagnostics errors = set_groups(*list, *how.group_pattern);
    if (!errors.empty()) return errors;
    if (auto note = list->divided ? shared_groups(*list) : std::nullopt)
      list->notes.push_back(*std::move(note));
  }
  return with_names(*std::move(list));
}

/// Returns the list of images that make_image_folder() will create.
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

/// Creates the images unless they exist. Concurrent runs, such as trials of a sweep, create them
/// only once.
void make_in(const std::string& root, const MadeImages& images, runner::RunContext& context) {
  fs::path folder = fs::absolute(root).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();  // `root` ends in a slash
  const auto turn = runner::Turn::take(
      folder.parent_path() / ("." + folder.filename().string() + ".turn"),
      [&] { return context.canceled(); },
      [&] {
        context.say("waiting for another run that is creating the images in '" + root + "'");
      });
  if (context.canceled()) throw runner::Canceled{};
  if (turn && fs::exists(root) && !differs(root, images)) return;
  context.say("creating " + std::to_string(images.count()) + " images in '" + root + "'");
  make_image_folder(root, images,
                    {.progress =
                         [&](std::int64_t done, std::int64_t all) {
                           context.progress({.phase = "make data", .step = done, .steps = all});
                         },
                     .canceled = [&] { return context.canceled(); }});
}

runner::Result<std::unique_ptr<runner::Stage>> create_image_folder(ConfigReader& reader) {
  const ImageOptions options = read_image_options(reader);
  const std::string& root = options.root;
  ImageSource source;
  FolderListing listing{.root = root, .allow_outside = options.allow_outside, .group_pattern = {}};
  reader.read("multi_label", listing.is_multi_label);
  std::optional<std::string> group_pattern;
  listing.group_pattern = read_group_pattern(reader, group_pattern);
  std::vector<std::string> divided_by;
  if (listing.is_multi_label) divided_by.emplace_back("multi_label");
  if (group_pattern) divided_by.push_back("group pattern '" + *group_pattern + "'");
  source.divided_by = runner::join(divided_by, ", ");
  source.list = [listing] { return listed_folders(listing); };
  source.captions = read_captions(reader, {"name"});
  read_split(reader.section("split"), source);
  source.folds = read_folds(reader);
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

extern const runner::StageKind kDataImageFolder = {.name = "data.image_folder",
                                                   .create = create_image_folder};

namespace {

namespace fs = std::filesystem;
using runner::ErrorCode;

constexpr const char* kMarker = ".retort-made.json";
constexpr int kVersion = 1;  // increased when the generated images change

nlohmann::ordered_json numbers(const MadeImages& images) {
  return {{"version", kVersion},
          {"classes", images.classes},
          {"per_class", images.per_class},
          {"size", images.size},
          {"seed", images.seed}};
}

}  // namespace

void make_image_folder(const fs::path& folder, const MadeImages& images,
                       const MakeCallbacks& callbacks) {
  check(images, 1);
  runner::NewFolder made(folder, *callbacks.storage, "/root");
  std::int64_t done = 0;
  for (std::int64_t label = 0; label < images.classes; ++label) {
    const auto shape = static_cast<std::size_t>(label);
    const std::string below(shape_names()[shape]);
    made.create(below);
    for (std::int64_t i = 0; i < images.per_class; ++i) {
      check_canceled(callbacks);
      const Random random(
          {static_cast<std::uint64_t>(images.seed), shape, static_cast<std::uint64_t>(i)});
      made.write(
          below + "/" + padded(i, 5) + ".jpg",
          encode_jpeg(draw_shape(shape, static_cast<int>(images.size), random), kMadeQuality));
      if (callbacks.progress) callbacks.progress(++done, images.count());
    }
  }
  made.write(kMarker, numbers(images).dump(2) + "\n");
  made.publish();
}

std::optional<runner::Diagnostic> differs(const fs::path& folder, const MadeImages& images) {
  std::ifstream file = runner::open_regular(folder / kMarker);
  std::string text(4096, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  const auto made = runner::parse_json<nlohmann::ordered_json>(text);
  if (!made.is_object()) {
    return runner::Diagnostic{
        ErrorCode::kFolderExists,
        {},
        "",
        "'" + folder.string() + "' already exists and was not created by 'make'",
        "set make: null to use the existing images, or choose another root"};
  }
  if (made == numbers(images)) return std::nullopt;
  return runner::Diagnostic{ErrorCode::kOptionConflict,
                            {},
                            "",
                            "'" + folder.string() + "' was created with different parameters: " +
                                made.dump().substr(0, 200),
                            "choose another root, or remove the folder to create it again"};
}

}  // namespace stages
