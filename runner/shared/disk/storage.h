#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>

namespace runner {

/// The system calls that create, write and remove files. Each returns what the system call returns:
/// -1 with errno on failure. This is an interface so that tests can make any call fail or end the
/// program.
class Storage {
 public:
  virtual ~Storage() = default;
  /// Creates an empty file and opens it for writing. Fails if the name exists, even as a broken
  /// link.
  virtual int create(const std::filesystem::path& path) = 0;
  /// May write less than `size`, like write(2).
  virtual ssize_t write(int file, const char* data, std::size_t size) = 0;
  /// Flushes a file to the disk; for a folder, flushes the names in it.
  virtual int sync(int file) = 0;
  virtual int rename(const std::filesystem::path& from, const std::filesystem::path& to) = 0;
  virtual int make_folder(const std::filesystem::path& path) = 0;
  /// Removes a file, a link or an empty folder.
  virtual int remove(const std::filesystem::path& path) = 0;
  /// Returns the number of free bytes on the disk that holds `path`; nullopt if unknown.
  virtual std::optional<std::uint64_t> free_bytes(const std::filesystem::path& path) = 0;
};

/// Returns the real disk. In a build with RETORT_FAULTS, it honors the RETORT_FAULT variable
/// (fault.h) and throws std::invalid_argument if the variable is malformed.
Storage& disk();

}  // namespace runner
