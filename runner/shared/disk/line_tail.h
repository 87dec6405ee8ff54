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
    bool is_anew = false;  ///< the file was replaced or cut: `lines` begins with its first line
    std::vector<std::string> lines = {};  ///< without newlines
  };
  /// Returns the next lines, at most `most`; none if there is no file yet.
  News next(std::size_t most = static_cast<std::size_t>(-1));
  /// Reads the file from its beginning again.
  void rewind() { at_ = 0; }

 private:
  std::filesystem::path file_;
  ino_t inode_ = 0;
  std::streamoff at_ = 0;  // bytes of the lines read so far
};

}  // namespace runner
