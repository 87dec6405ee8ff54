#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>

namespace runner {

/// The calls by which files come to be on a disk, and go. Each answers as the system's own does: -1
/// and errno where it failed. An interface, so that a test may make any of them fail, and end the
/// program at any of them.
class Storage {
 public:
  virtual ~Storage() = default;
  /// Makes an empty file and opens it for writing. Fails where anything has the name, even a broken
  /// link.
  virtual int create(const std::filesystem::path& path) = 0;
  /// May write less than `size`, as write(2).
  virtual ssize_t write(int file, const char* data, std::size_t size) = 0;
  /// What was written is on the disk when this returns. Of a folder: the names in it.
  virtual int sync(int file) = 0;
  virtual int rename(const std::filesystem::path& from, const std::filesystem::path& to) = 0;
  virtual int make_folder(const std::filesystem::path& path) = 0;
  /// Removes a file, a link or an empty folder.
  virtual int remove(const std::filesystem::path& path) = 0;
  /// Bytes that may still be written to the disk that holds `path`; nullopt where it does not say.
  virtual std::optional<std::uint64_t> free_bytes(const std::filesystem::path& path) = 0;
};

/// The system's own. In a build with RETORT_FAULTS it obeys the variable RETORT_FAULT (fault.h),
/// whose mistakes it reports by std::invalid_argument.
Storage& disk();

}  // namespace runner
