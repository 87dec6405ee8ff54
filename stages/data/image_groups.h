#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "stages/data/image_list.h"

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

}  // namespace stages
