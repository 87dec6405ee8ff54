#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string_view>

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/text/image_names.h"

namespace runner {

/// The entries of an image folder that are ignored, judged by name only.
struct Leftovers {
  NotTaken counts;
  bool complete = true;  ///< false: there were more entries than the limit, so not all were
                         ///< inspected
};

/// The part of a data split that a folder of this name holds, in any case: "train" for train and
/// training, "validation" for validation, val, valid and dev, "test" for test and testing; empty:
/// none.
std::string_view part_of_folder(std::string_view name);

/// True if the folder is such a part, and not a class of that name: a folder of images without
/// subfolders.
bool is_part_folder(const std::filesystem::path& folder);

/// For root/CLASS/IMAGE or, if root has part folders, root/PART/CLASS/IMAGE. Folders next to the
/// part folders are not searched. Unreadable folders count as empty.
Leftovers find_leftovers(const std::filesystem::path& root,
                         std::int64_t most_entries = std::numeric_limits<std::int64_t>::max());

/// The error for a missing image folder.
Diagnostic missing_images_error(const std::filesystem::path& root);

/// The error for images in unsupported formats, if on_corrupt does not say to skip them. There is
/// at least one.
Diagnostic other_images_error(const std::filesystem::path& root, const NotTaken& counts);

}  // namespace runner
