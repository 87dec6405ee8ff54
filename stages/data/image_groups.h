#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/shared/error/diagnostic.h"
#include "stages/data/image_list.h"
#include "stages/text/expression.h"

namespace stages {

/// Images that must stay in the same part. `name` points into one of the images.
struct ImageGroup {
  std::int64_t label = 0;  ///< the highest label of the images
  std::string_view name;   ///< the name of the patient or of the image
  std::vector<std::size_t> files;
};

/// Returns the groups of `files` by label: one for each patient, and one for each image without a
/// patient. The groups of a class are ordered by their first image.
std::vector<std::vector<ImageGroup>> groups_by_class(const std::vector<ImageFile>& files);

/// Sets the group of each image to what `pattern` captures from its file name, without folder and
/// extension: the capture group named "group" or, if there is none, the first one. Returns an error
/// at "/group_pattern" if the pattern captures nothing from some of the names, or takes too long.
runner::Diagnostics set_groups(ImageList& list, const Expression& pattern);

/// Returns a note that lists the groups with images in more than one part; nullopt if there are
/// none.
std::optional<std::string> shared_groups(const ImageList& list);

}  // namespace stages
