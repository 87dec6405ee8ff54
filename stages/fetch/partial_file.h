#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "runner/shared/disk/descriptor.h"
#include "runner/shared/disk/storage.h"
#include "runner/shared/error/error_code.h"

namespace stages {

/// A file that is being downloaded to <file>.part and gets its final name once it is complete. A
/// note in <file>.part.json identifies the file on the server. Both survive if the process is
/// killed; the next PartialFile with the same name finds them. Throws runner::StageError
/// (kDiskFull, kCannotWrite, kCannotCreate).
class PartialFile {
 public:
  /// Finds the part of `file` that already exists. A note with a different `url` is ignored.
  /// `storage` is borrowed.
  PartialFile(const std::filesystem::path& file, std::string url, runner::Storage& storage);

  const std::filesystem::path& path() const { return path_; }
  std::int64_t bytes() const { return bytes_; }
  /// The validator (ETag or date) of the file on the server; empty if unknown.
  const std::string& validator() const { return validator_; }

  void begin_anew();
  /// Stores `validator` in the note. Call this before the first append() to an empty file.
  void note(const std::string& validator);
  void append(std::string_view bytes);
  /// Flushes the file to disk and renames it to `file`.
  void publish(const std::filesystem::path& file);

  /// Throws the StageError for a system call that failed on `path` with errno `error`.
  [[noreturn]] static void cannot_write(
      const std::filesystem::path& path, int error,
      runner::ErrorCode otherwise = runner::ErrorCode::kCannotWrite);

 private:
  void open();
  void read_note();

  const std::filesystem::path path_, note_;
  const std::string url_;
  runner::Storage& storage_;
  runner::Descriptor file_;
  std::int64_t bytes_ = 0;
  std::string validator_;
};

}  // namespace stages
