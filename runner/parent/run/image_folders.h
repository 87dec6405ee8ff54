#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/graph/graph.h"
#include "runner/shared/value/value.h"

namespace runner {

/// What is known about a recipe's image folders before any image is opened.
struct ImageFolders {
  std::vector<std::string> lines;  ///< "data: 12 files ignored: 10 .txt, 2 .svg"
  Diagnostics errors;
};

/// Inspects the folder of each stage data.image_folder of a resolved recipe, if it exists. In a
/// large folder only the first entries are counted, so that this takes no noticeable time. Relative
/// paths are resolved against `working_folder`.
ImageFolders look_at_image_folders(const Value& recipe,
                                   const std::filesystem::path& working_folder = {});

/// An error at the option for each class that a training names and that no folder of its
/// data.image_folder has. A folder that does not exist is skipped; no file is opened.
Diagnostics unknown_classes(const Graph& graph);

}  // namespace runner
