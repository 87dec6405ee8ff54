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
#include "stages/data/image_folds.h"
#include "stages/data/image_list.h"
#include "stages/data/image_options.h"
#include "stages/data/image_split.h"

namespace stages {

/// The source of a data stage's images, which differs between data kinds.
struct ImageSource {
  /// Lists the images. Reports all errors at once, either without a location or at an option of the
  /// stage, such as "/table".
  std::function<runner::Result<ImageList>()> list;
  /// Fetches or creates the images before they are listed; empty if they already exist.
  std::function<void(runner::RunContext&)> obtain = {};
  /// Returns the list that `list` will return after `obtain`; empty if unknown, in which case the
  /// stage cannot be planned before the images exist.
  std::function<ImageList()> foresee = {};
  /// How to divide the training images, unless folders already divide them; nullopt: they are not
  /// divided.
  std::optional<SplitOptions> split = {};
  std::optional<std::int64_t> split_seed = {};  ///< for split and folds; nullopt: the run's seed
  /// The fold that becomes the validation part; nullopt: the parts stay as divided.
  std::optional<FoldOptions> folds = {};
  /// A description of the other options that determine the division: those that select the images
  /// and, for images that are already divided, their parts.
  std::string divided_by = {};
  std::vector<CaptionTemplate> captions =
      {};  ///< may use only the list's fields; empty: no captions
  /// Checks the parts once they exist. May remove images, report findings and throw StageError;
  /// empty: no check.
  std::function<void(ImageList&, runner::RunContext&)> look = {};
};

/// Creates a data stage that outputs a dataset for each part of the list, as "train", "validation"
/// and "test", and reports how many images each has. "validation" is missing if it has no images;
/// an empty "test" is kept, so that the stage that uses it can report it. The caller must have read
/// all of the stage's options. Returns the errors of all options and of the list; list errors that
/// name no option are reported at `root`. If the images must be obtained first, they are listed
/// when the stage runs:
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

/// Returns a dataset for each part, made from that part of its list in `lists`. A list may occur
/// more than once. Without validation images, there is no validation dataset.
runner::Outputs image_datasets(
    const std::array<std::shared_ptr<const ImageList>, kSplitParts>& lists,
    const ImageOptions& options, runner::RunContext& context);

/// Reads the `split` section (the parts' shares and the seed) into `source`.
void read_split(runner::ConfigReader& reader, ImageSource& source);

/// Reads the `folds` section; nullopt if it is null.
std::optional<FoldOptions> read_folds(runner::ConfigReader& reader);

/// Reads the `download` option. Returns a function that fetches the published dataset `name` into
/// `root`; empty if the option is off or the dataset exists.
std::function<void(runner::RunContext&)> read_download(runner::ConfigReader& reader,
                                                       std::string_view name,
                                                       const std::filesystem::path& root);

}  // namespace stages
