#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runner/shared/error/diagnostic.h"
#include "stages/data/image_list.h"

namespace stages {

/// "code: message" of each error, with ROOT for the path of `root`.
inline std::vector<std::string> errors_below(const std::filesystem::path& root,
                                             const runner::Diagnostics& errors) {
  std::vector<std::string> lines;
  const std::string path = root.string();
  for (const auto& error : errors) {
    std::string line = runner::name(error.code) + ": " + error.message;
    for (auto at = line.find(path); at != line.npos; at = line.find(path))
      line.replace(at, path.size(), "ROOT");
    lines.push_back(line);
  }
  return lines;
}

/// "1 jpg/image_00002.jpg" of each image: its label and its name.
inline std::vector<std::string> labelled_names(const std::vector<ImageFile>& files) {
  std::vector<std::string> names;
  for (const ImageFile& file : files) names.push_back(std::to_string(file.label) + " " + file.name);
  return names;
}

}  // namespace stages
