#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/run_context.h"
#include "runner/shared/stage/stage.h"
#include "stages/data/image_dataset.h"
#include "stages/data/image_list.h"

namespace stages {

/// The common options of the data stages of image files (schemas/images.schema.json).
struct ImageOptions {
  std::string root;
  bool allow_outside = false;
  std::optional<std::int64_t> cache_mib = 0;  ///< nullopt: the memory that plans leave
  bool cache_on_disk = false;
  ImageDatasetOptions images;
};

/// Reads them; reports conflicts to `reader`.
ImageOptions read_image_options(runner::ConfigReader& reader);

/// The section `key`, null where the recipe says null.
runner::ConfigReader* section_or_null(runner::ConfigReader& reader, std::string_view key);

/// The source of a data stage's images: what differs between kinds of data.
struct ImageSource {
  /// Lists the images. Reports all errors at once, without a place in the recipe, or at one of the
  /// stage's options, "/table".
  std::function<runner::Result<ImageList>()> list;
  /// Fetches or makes what will be listed; empty: it already exists.
  std::function<void(runner::RunContext&)> obtain = {};
  /// What `list` will find after `obtain`; empty: unknown, so nothing can be planned before.
  std::function<ImageList()> foresee = {};
  /// How the training images are divided, unless the folders already divide them; nullopt: not at
  /// all.
  std::optional<SplitOptions> split = {};
  std::optional<std::int64_t> split_seed = {};  ///< nullopt: the run's
  /// The other options that determine the division, in words: those that select the images and, for
  /// images that are already divided, their parts.
  std::string divided_by = {};
  std::vector<CaptionTemplate> captions = {};  ///< of fields that the list has; empty: no captions
  /// Checks the parts once they exist: may leave images out, report what it found and throw
  /// StageError; empty: no check.
  std::function<void(ImageList&, runner::RunContext&)> look = {};
};

/// A data stage of images: outputs a dataset for each part of the list, as "train", "validation"
/// and "test", and reports how many images each has. Without validation images that output is
/// missing; an empty test set is kept, so that its user can report it. The caller has read the
/// options other than `options`. The result has the errors of all options and of the list; those of
/// the list that name no option are placed at `root`. If the images must be obtained first, they
/// are listed when the stage runs:
///
///   runner::Result<std::unique_ptr<runner::Stage>> create_birds(runner::ConfigReader& reader) {
///     const ImageOptions options = read_image_options(reader);
///     return image_stage(reader, options,
///                        {.list = [root = options.root] { return list_birds(root); },
///                         .obtain = read_download(reader, "birds", options.root)});
///   }
runner::Result<std::unique_ptr<runner::Stage>> image_stage(runner::ConfigReader& reader,
                                                           ImageOptions options,
                                                           ImageSource source);

/// The datasets of several lists, one for each part, of which only that part is used; a list may
/// occur more than once. Without validation images there is no dataset for them.
runner::Outputs image_datasets(
    const std::array<std::shared_ptr<const ImageList>, kSplitParts>& lists,
    const ImageOptions& options, runner::RunContext& context);

/// Reads the section `split`: the shares of the parts, and the seed.
void read_split(runner::ConfigReader& reader, ImageSource& source);

/// Reads the option `download`. Returns a function that fetches the published data set `name` into
/// `root`; empty if the recipe does not want that, or the data set exists.
std::function<void(runner::RunContext&)> read_download(runner::ConfigReader& reader,
                                                       std::string_view name,
                                                       const std::filesystem::path& root);

}  // namespace stages
