#pragma once

#include <filesystem>

namespace runner {

/// The file through which the ranks that this process starts find each other: a path on this
/// machine that no other ranks have used, in memory if possible. The ranks create the file; the
/// destructor removes it.
class MeetingFile {
 public:
  MeetingFile();
  ~MeetingFile();
  MeetingFile(const MeetingFile&) = delete;
  MeetingFile& operator=(const MeetingFile&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  const std::filesystem::path path_;
};

}  // namespace runner
