#pragma once

#include <filesystem>

namespace runner {

/// A new folder for temporary files, removed by the destructor.
class ScratchFolder {
 public:
  /// Throws WriteError.
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace runner
