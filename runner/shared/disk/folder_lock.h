#pragma once

#include <filesystem>

#include "runner/shared/disk/descriptor.h"
#include "runner/shared/disk/lease.h"
#include "runner/shared/error/result.h"

namespace runner {

/// The right to work in a folder, which one process has, on whatever machine: a lock (flock(2)) on the folder, where
/// its file system has them, which ends with the process however that ends but may not be seen by other machines; and a
/// lease in it (lease.h), which they see. Others may join whoever has it.
class FolderLock {
 public:
  /// `busy` is the error where somebody has it, {} in its texts stands for who, as far as that is known. Waits a
  /// moment for one who was killed and is on the way out, and longer for signs of life of one on another machine.
  /// kCannotWrite where there can be neither a lock nor a lease.
  static Result<FolderLock> take(const std::filesystem::path& folder, const Diagnostic& busy,
                                 Lease::Options options = {});
  /// For those who work for the one that has it: until they are gone, nobody else gets it. `busy` where none has it.
  static Result<FolderLock> join(const std::filesystem::path& folder, const Diagnostic& busy);

  /// Whether somebody works in `folder`, at one look; nullopt where that cannot be told.
  static std::optional<bool> is_taken(const std::filesystem::path& folder);

  /// The folder, opened.
  const Descriptor& folder() const { return file_; }

 private:
  explicit FolderLock(Descriptor file) : file_(std::move(file)) {}
  Descriptor file_;
  std::optional<Lease> lease_;  // given back first
};

}  // namespace runner
