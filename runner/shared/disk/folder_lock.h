#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runner/shared/disk/descriptor.h"
#include "runner/shared/disk/lease.h"
#include "runner/shared/error/diagnostic.h"

namespace runner {

/// The exclusive right of one process, on any machine, to work in a folder. It consists of a lock
/// (flock(2)) on the folder, if its file system supports locks, and a lease in it (lease.h). The
/// lock is released when the process exits, for whatever reason, but other machines may not see it;
/// they rely on the lease. Other processes may join the holder.
class FolderLock {
 public:
  /// Takes the lock on `folder`. If another process holds it, returns the error `busy`, with {} in
  /// its texts replaced by the holder, if it is known. Waits briefly for a killed holder that is
  /// still exiting, and longer for heartbeats from a holder on another machine. kCannotWrite if
  /// neither a lock nor a lease is possible.
  static Result<FolderLock> take(const std::filesystem::path& folder, const Diagnostic& busy,
                                 Lease::Options options = {});
  /// Joins the holder's lock, for a process that works for the holder. No other process can take
  /// the folder until all processes that joined have exited too. Returns `busy` if there is no
  /// holder.
  static Result<FolderLock> join(const std::filesystem::path& folder, const Diagnostic& busy);

  /// Checks once whether a process is using `folder`; nullopt if that cannot be determined.
  static std::optional<bool> is_taken(const std::filesystem::path& folder);

  /// Returns the opened folder.
  const Descriptor& folder() const { return file_; }

 private:
  explicit FolderLock(Descriptor file) : file_(std::move(file)) {}
  Descriptor file_;
  std::optional<Lease> lease_;  // the last member, so it is released first
};

/// A folder for locks that only this user's processes can access: retort/ in $XDG_RUNTIME_DIR, or
/// /tmp/retort-<user id> if there is no such folder. A lock is a file in it, held by flock(2): it
/// is released when the process exits, for whatever reason. Processes on different machines do not
/// see each other's locks.
class LockFolder {
 public:
  /// Opens the folder, creating it if necessary. kCannotCreate if it cannot be created, is a link,
  /// belongs to another user or gives others access, since a lock in it would then prove nothing.
  static Result<LockFolder> open(std::filesystem::path path = standard_path());
  static std::filesystem::path standard_path();

  /// Opens the file `name` in the folder, creating it if necessary; does not follow links. On
  /// failure, the descriptor is not open and errno is set.
  Descriptor file(const std::string& name) const;
  /// Returns the names of all files in the folder, sorted.
  std::vector<std::string> names() const;
  /// Renames a file in the folder. Returns false and sets errno on failure.
  bool rename(const std::string& from, const std::string& to) const;
  void remove(const std::string& name) const;
  const std::filesystem::path& path() const { return path_; }

 private:
  LockFolder(std::filesystem::path path, Descriptor folder)
      : path_(std::move(path)), folder_(std::move(folder)) {}
  std::filesystem::path path_;
  Descriptor folder_;
};

/// Locks an open file without waiting: exclusively, or shared if `is_shared`. Returns false if
/// another process holds a conflicting lock or the file system does not support locks.
bool try_lock(const Descriptor& file, bool is_shared = false);

}  // namespace runner
