#pragma once

#include <filesystem>
#include <set>

#include "runner/shared/disk/storage.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/error/stage_error.h"

namespace runner {

/// A storage that defers its flushes until write_kept(). Used at the start of a run: until the run
/// has saved something, it can simply be started again, so it may lose all its files in a power
/// cut. If write_kept() is never called, the files may be lost unless the caller that waits for the
/// run flushes them.
class LateStorage final : public Storage {
 public:
  /// `storage` is borrowed.
  explicit LateStorage(Storage& storage) : storage_(storage) {}

  /// Flushes everything written so far. From then on, each write is flushed at once. Throws
  /// WriteError.
  void write_kept();

  int create(const std::filesystem::path& path) override;
  ssize_t write(int file, const char* data, std::size_t size) override {
    return storage_.write(file, data, size);
  }
  int sync(int file) override { return is_resolved_ ? storage_.sync(file) : 0; }
  int rename(const std::filesystem::path& from, const std::filesystem::path& to) override;
  int make_folder(const std::filesystem::path& path) override;
  int remove(const std::filesystem::path& path) override;
  std::optional<std::uint64_t> free_bytes(const std::filesystem::path& path) override {
    return storage_.free_bytes(path);
  }

 private:
  Storage& storage_;
  bool is_resolved_ = false;
  std::set<std::filesystem::path> files_, folders_;  // what must still be flushed; for folders, the
                                                     // names in them
};

/// A file or folder could not be written: kDiskFull, kCannotCreate or kCannotWrite. If a stage
/// throws this error, it is reported against that stage.
struct WriteError : StageError {
  explicit WriteError(const Diagnostic& diagnostic)
      : StageError(StageError(diagnostic.code, diagnostic.message)
                       .at(diagnostic.pointer)
                       .with_help(diagnostic.help)) {}
  Diagnostic diagnostic() const { return {code, {}, option, what(), help}; }
};

/// Returns the error for `path`, from errno: kDiskFull for a full disk or quota, else `otherwise`.
Diagnostic write_diagnostic(const std::filesystem::path& path, int error, ErrorCode otherwise);

}  // namespace runner
