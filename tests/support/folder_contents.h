#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/support/pictures.h"

/// Every file below `folder`, by its relative path.
inline std::map<std::string, std::vector<std::uint8_t>> contents_of(
    const std::filesystem::path& folder) {
  std::map<std::string, std::vector<std::uint8_t>> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file())
      files[std::filesystem::relative(entry.path(), folder)] = file_bytes(entry.path());
  }
  return files;
}
