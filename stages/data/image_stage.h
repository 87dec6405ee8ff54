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

/// The options that the data stages of image files share (schemas/images.schema.json).
struct ImageOptions {
  std::string root;
  bool allow_outside = false;
  std::optional<std::int64_t> cache_mib = 0;  ///< nullopt: what plans leave of the memory
  bool cache_on_disk = false;
  ImageDatasetOptions images;
};

/// Reads them, telling `reader` of those that contradict each other.
ImageOptions read_image_options(runner::ConfigReader& reader);

/// The section `key`, null where the recipe says null.
runner::ConfigReader* section_or_null(runner::ConfigReader& reader, std::string_view key);

/// Where the images of a data stage come from: what one kind of them has that another has not.
struct ImageSource {
  /// Lists what is there. Everything wrong is reported at once, without a place in the recipe, or
  /// at one of the stage's options, "/table".
  std::function<runner::Result<ImageList>()> list;
  /// Fetches or makes what is to be listed; empty: it is there.
  std::function<void(runner::RunContext&)> obtain = {};
  /// What `list` will find after `obtain`; empty: that is not known, so nothing can be planned
  /// before.
  std::function<ImageList()> foresee = {};
  /// How the images for training are divided, unless the folders have divided them; nullopt: not at
  /// all.
  std::optional<SplitOptions> split = {};
  std::optional<std::int64_t> split_seed = {};  ///< nullopt: the run's
  /// What else the division follows from, in words: the options that say which images there are,
  /// and in which part those are that are divided already.
  std::string divided_by = {};
  std::vector<CaptionTemplate> captions = {};  ///< of fields that the list has; none: no captions
  /// Looks at the parts once they are there: may leave images out, say what it found and throw
  /// StageError; empty: nothing is looked for.
  std::function<void(ImageList&, runner::RunContext&)> look = {};
};

/// A data stage of images: puts out a dataset for each part of the list, under "train",
/// "validation" and "test", and says how many images each has. Without images for validation there
/// is no such output; an empty test set stays, so that who needs it can say so. The options beside
/// `options` have been read; what is wrong with any of them, and with what is listed, which is
/// blamed on `root` where it names no option, is in the result. What is to be obtained first is
/// listed when it is run:
///
///   runner::Result<std::unique_ptr<runner::Stage>> create_birds(runner::ConfigReader& reader) {
///     const ImageOptions options = read_image_options(reader);
///     return image_stage(reader, options, {.list = [root = options.root] { return
///     list_birds(root); },
///                                          .obtain = read_download(reader, "birds",
///                                          options.root)});
///   }
runner::Result<std::unique_ptr<runner::Stage>> image_stage(runner::ConfigReader& reader,
                                                           ImageOptions options,
                                                           ImageSource source);

/// The datasets of some lists, one for each part, of which only that part is used; the same list
/// may be there more than once. Without images for validation there is none.
runner::Outputs image_datasets(
    const std::array<std::shared_ptr<const ImageList>, kSplitParts>& lists,
    const ImageOptions& options, runner::RunContext& context);

/// Reads the section `split`: the shares of the parts, and the seed.
void read_split(runner::ConfigReader& reader, ImageSource& source);

/// Reads the option `download`. Gives back what fetches the published data set `name` into `root`;
/// empty where the recipe does not want that, or the data set is there.
std::function<void(runner::RunContext&)> read_download(runner::ConfigReader& reader,
                                                       std::string_view name,
                                                       const std::filesystem::path& root);

}  // namespace stages
