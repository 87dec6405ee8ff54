#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace runner {

/// Reads the lines of a file that another process is writing. Only complete lines are returned.
class LineTail {
 public:
  explicit LineTail(std::filesystem::path file) : file_(std::move(file)) {}

  struct News {
    bool is_anew = false;  ///< the file was replaced or truncated: `lines` starts at its first line
    std::vector<std::string> lines = {};  ///< without newlines
  };
  /// Returns up to `most` further lines; none if the file does not exist yet.
  News next(std::size_t most = static_cast<std::size_t>(-1));
  /// Starts over at the beginning of the file.
  void rewind() { at_ = 0; }

 private:
  std::filesystem::path file_;
  ino_t inode_ = 0;
  std::streamoff at_ = 0;  // total size of the lines read so far
};

}  // namespace runner
