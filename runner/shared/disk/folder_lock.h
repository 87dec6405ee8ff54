#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runner/shared/disk/descriptor.h"
#include "runner/shared/disk/lease.h"
#include "runner/shared/error/diagnostic.h"

namespace runner {

/// The right to work in a folder, which one process has, on whatever machine: a lock (flock(2)) on
/// the folder, where its file system has them, which ends with the process however that ends but
/// may not be seen by other machines; and a lease in it (lease.h), which they see. Others may join
/// whoever has it.
class FolderLock {
 public:
  /// `busy` is the error where somebody has it, {} in its texts stands for who, as far as that is
  /// known. Waits a moment for one who was killed and is on the way out, and longer for signs of
  /// life of one on another machine. kCannotWrite where there can be neither a lock nor a lease.
  static Result<FolderLock> take(const std::filesystem::path& folder, const Diagnostic& busy,
                                 Lease::Options options = {});
  /// For those who work for the one that has it: until they are gone, nobody else gets it. `busy`
  /// where none has it.
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

/// A folder for locks that only this user's processes can touch: retort/ in $XDG_RUNTIME_DIR, or
/// where there is no such folder /tmp/retort-<user id>. A lock is a file in it, held by flock(2):
/// it ends with the process, however that ends. Locks of different machines never meet.
class LockFolder {
 public:
  /// Opens it, and makes it where it is missing. kCannotCreate where it cannot be made, is a link,
  /// belongs to somebody else or lets others in: then a lock in it would prove nothing.
  static Result<LockFolder> open(std::filesystem::path path = standard_path());
  static std::filesystem::path standard_path();

  /// The file `name` of it, made where it is missing; links are not followed. Not open where that
  /// fails: errno says why.
  Descriptor file(const std::string& name) const;
  /// The names of all its files, sorted.
  std::vector<std::string> names() const;
  /// False where that fails: errno says why.
  bool rename(const std::string& from, const std::string& to) const;
  void remove(const std::string& name) const;
  const std::filesystem::path& path() const { return path_; }

 private:
  LockFolder(std::filesystem::path path, Descriptor folder)
      : path_(std::move(path)), folder_(std::move(folder)) {}
  std::filesystem::path path_;
  Descriptor folder_;
};

/// Locks an open file, for itself alone or with `is_shared` together with others that share it; not
/// a moment is waited. False where somebody holds a lock that forbids it, or the file system has
/// none.
bool try_lock(const Descriptor& file, bool is_shared = false);

}  // namespace runner
