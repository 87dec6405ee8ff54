#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/graph/graph.h"
#include "runner/shared/value/value.h"

namespace runner {

/// What can be said of the folders of images that a recipe names before anything is opened.
struct ImageFolders {
  std::vector<std::string> lines;  ///< "data: 12 files ignored: 10 .txt, 2 .svg"
  Diagnostics errors;
};

/// Looks at the folder of each stage data.image_folder of a resolved recipe, where it is there. Of
/// a large one the first entries speak for the rest, so that it takes no longer than a blink.
/// Relative paths stand in `working_folder`.
ImageFolders look_at_image_folders(const Value& recipe,
                                   const std::filesystem::path& working_folder = {});

/// The classes that a training names and that no folder of its data.image_folder has, each at its
/// option. A folder that is not there is passed over; nothing in it is opened.
Diagnostics unknown_classes(const Graph& graph);

}  // namespace runner
