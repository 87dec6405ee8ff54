#include "runner/shared/disk/file_system.h"

#include <algorithm>
#include <array>
#include <fstream>

namespace runner {
namespace {

class DiskFiles : public FileSystem {
 public:
  std::optional<std::string> read(const std::filesystem::path& path, std::size_t limit) const override {
    if (!is_file(path)) return std::nullopt;  // a pipe or a device could block, or never end
    std::ifstream stream(path, std::ios::binary);
    if (!stream) return std::nullopt;
    std::string text;
    std::array<char, 16384> chunk;
    while (text.size() <= limit && (stream.read(chunk.data(), chunk.size()), stream.gcount() > 0)) {
      text.append(chunk.data(), static_cast<std::size_t>(stream.gcount()));
    }
    if (text.size() > limit || stream.bad()) return std::nullopt;
    return text;
  }

  bool is_file(const std::filesystem::path& path) const override {
    std::error_code ignored;
    return std::filesystem::is_regular_file(path, ignored);
  }

  bool is_folder(const std::filesystem::path& path) const override {
    std::error_code ignored;
    return std::filesystem::is_directory(path, ignored);
  }

  std::vector<std::string> list(const std::filesystem::path& folder) const override {
    std::vector<std::string> names;
    std::error_code error;
    for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
         entry.increment(error)) {
      names.push_back(entry->path().filename().string());
    }
    std::ranges::sort(names);
    return names;
  }
};

}  // namespace

const FileSystem& real_file_system() {
  static const DiskFiles disk;
  return disk;
}

}  // namespace runner
