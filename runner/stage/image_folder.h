#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>

#include "runner/error/diagnostic.h"
#include "runner/text/image_names.h"

namespace runner {

/// The entries of a folder of images that are ignored, by their names alone.
struct Leftovers {
  NotTaken counts;
  bool complete = true;  ///< false where there were more entries than were to be looked at
};

/// Of root/CLASS/IMAGE or, where root has a folder train, validation or test, of root/PART/CLASS/IMAGE. Folders beside
/// train, validation and test are not searched. What cannot be read counts as empty.
Leftovers find_leftovers(const std::filesystem::path& root,
                         std::int64_t most_entries = std::numeric_limits<std::int64_t>::max());

/// The error for a folder of images that is not there.
Diagnostic missing_images_error(const std::filesystem::path& root);

/// The error for images in formats that are not read, where on_corrupt does not say to skip them. There is at least
/// one.
Diagnostic other_images_error(const std::filesystem::path& root, const NotTaken& counts);

}  // namespace runner
