#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/graph/graph.h"
#include "runner/shared/value/value.h"

namespace runner {

/// Findings about a recipe's image folders, obtained without opening any images.
struct ImageFolders {
  std::vector<std::string> lines;  ///< "data: 12 files ignored: 10 .txt, 2 .svg"
  Diagnostics errors;
};

/// Inspects the folder of each data.image_folder stage in a resolved recipe, if the folder exists.
/// To stay fast, counts only the first entries of a large folder. Relative paths are resolved
/// against `working_folder`.
ImageFolders look_at_image_folders(const Value& recipe,
                                   const std::filesystem::path& working_folder = {});

/// Returns an error, at the option, for each class that is named by a training stage but has no
/// folder in its data.image_folder. Skips folders that do not exist; does not open files.
Diagnostics unknown_classes(const Graph& graph);

}  // namespace runner
