#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runner/shared/disk/descriptor.h"
#include "runner/shared/error/result.h"

namespace runner {

/// A folder for locks that only this user's processes can touch: retort/ in $XDG_RUNTIME_DIR, or where there is no such
/// folder /tmp/retort-<user id>. A lock is a file in it, held by flock(2): it ends with the process, however that ends.
/// Locks of different machines never meet.
class LockFolder {
 public:
  /// Opens it, and makes it where it is missing. kCannotCreate where it cannot be made, is a link, belongs to somebody
  /// else or lets others in: then a lock in it would prove nothing.
  static Result<LockFolder> open(std::filesystem::path path = standard_path());
  static std::filesystem::path standard_path();

  /// The file `name` of it, made where it is missing; links are not followed. Not open where that fails: errno says
  /// why.
  Descriptor file(const std::string& name) const;
  /// The names of all its files, sorted.
  std::vector<std::string> names() const;
  /// False where that fails: errno says why.
  bool rename(const std::string& from, const std::string& to) const;
  void remove(const std::string& name) const;
  const std::filesystem::path& path() const { return path_; }

 private:
  LockFolder(std::filesystem::path path, Descriptor folder) : path_(std::move(path)), folder_(std::move(folder)) {}
  std::filesystem::path path_;
  Descriptor folder_;
};

/// Locks an open file, for itself alone or with `is_shared` together with others that share it; not a moment is
/// waited. False where somebody holds a lock that forbids it, or the file system has none.
bool try_lock(const Descriptor& file, bool is_shared = false);

}  // namespace runner
