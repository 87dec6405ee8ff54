#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runner/shared/error/diagnostic.h"
#include "stages/data/image_list.h"

namespace stages {

/// Returns each image's label and name, such as "1 jpg/image_00002.jpg".
inline std::vector<std::string> labeled_names(const std::vector<ImageFile>& files) {
  std::vector<std::string> names;
  for (const ImageFile& file : files) names.push_back(std::to_string(file.label) + " " + file.name);
  return names;
}

}  // namespace stages
