#pragma once

#include <algorithm>
#include <map>

#include "runner/shared/disk/file_digests.h"

/// Files by their full path; folders are implied by the files in them.
class MemoryFileSystem : public runner::FileSystem {
 public:
  std::map<std::string, std::string> files;

  std::optional<std::string> read(const std::filesystem::path& path,
                                  std::size_t limit) const override {
    const auto found = files.find(path.lexically_normal().string());
    if (found == files.end() || found->second.size() > limit) return std::nullopt;
    return found->second;
  }
  bool is_file(const std::filesystem::path& path) const override {
    return files.contains(path.lexically_normal().string());
  }
  bool is_folder(const std::filesystem::path& path) const override { return !list(path).empty(); }
  std::vector<std::string> list(const std::filesystem::path& folder) const override {
    std::string prefix = folder.lexically_normal().string();
    if (prefix == ".") prefix.clear();
    if (!prefix.empty() && !prefix.ends_with('/')) prefix += '/';
    std::vector<std::string> names;
    for (const auto& [path, text] : files) {
      if (!path.starts_with(prefix)) continue;
      const std::string below = path.substr(prefix.size());
      const std::string name = below.substr(0, below.find('/'));
      if (names.empty() || names.back() != name) names.push_back(name);
    }
    std::ranges::sort(names);
    names.erase(std::unique(names.begin(), names.end()), names.end());
    return names;
  }
};
