#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string_view>

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/text/image_names.h"

namespace runner {

/// The entries of a folder of images that are ignored, by their names alone.
struct Leftovers {
  NotTaken counts;
  bool complete = true;  ///< false where there were more entries than were to be looked at
};

/// Which part of divided images a folder of this name holds, in any case of its letters: "train" of
/// train and training, "validation" of validation, val, valid and dev, "test" of test and testing;
/// empty: none.
std::string_view part_of_folder(std::string_view name);

/// Is the folder one of these, and not a class that is called so: one of images, without a folder
/// in it?
bool is_part_folder(const std::filesystem::path& folder);

/// Of root/CLASS/IMAGE or, where root has folders of parts, of root/PART/CLASS/IMAGE. Folders
/// beside those are not searched. What cannot be read counts as empty.
Leftovers find_leftovers(const std::filesystem::path& root,
                         std::int64_t most_entries = std::numeric_limits<std::int64_t>::max());

/// The error for a folder of images that is not there.
Diagnostic missing_images_error(const std::filesystem::path& root);

/// The error for images in formats that are not read, where on_corrupt does not say to skip them.
/// There is at least one.
Diagnostic other_images_error(const std::filesystem::path& root, const NotTaken& counts);

}  // namespace runner
