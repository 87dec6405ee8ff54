#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string_view>

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/text/image_names.h"

namespace runner {

/// The entries of an image folder that are ignored, based only on their names.
struct Leftovers {
  NotTaken counts;
  bool complete = true;  ///< false if the limit was reached before all entries were
                         ///< inspected
};

/// Returns the part of a data split that a folder with this name contains, ignoring case: "train"
/// for train and training, "validation" for validation, val, valid and dev, "test" for test and
/// testing. Returns "" for other names.
std::string_view part_of_folder(std::string_view name);

/// True if the folder holds such a part and is not a class with that name, which would contain
/// images but no subfolders.
bool is_part_folder(const std::filesystem::path& folder);

/// Finds ignored entries in root/CLASS/IMAGE or, if root has part folders, in
/// root/PART/CLASS/IMAGE. Folders alongside the part folders are not searched. Unreadable folders
/// count as empty.
Leftovers find_leftovers(const std::filesystem::path& root,
                         std::int64_t most_entries = std::numeric_limits<std::int64_t>::max());

/// Returns the error for a missing image folder.
Diagnostic missing_images_error(const std::filesystem::path& root);

/// Returns the error for images in unsupported formats; there must be at least one. Used by stages
/// with an on_corrupt other than skip.
Diagnostic other_images_error(const std::filesystem::path& root, const NotTaken& counts);

}  // namespace runner
