#pragma once

#include <filesystem>
#include <string>
#include <utility>

#include "runner/shared/disk/folder_lock.h"
#include "runner/shared/error/result.h"

namespace runner {

/// Who works on a run holds the lock on its folder: on .retort, on whatever machine (folder_lock.h). retort and its
/// worker hold it together; nobody can resume the run before both have gone.
class RunLock {
 public:
  /// For the retort that runs or resumes it. Waits a moment for a worker whose retort was killed, and for signs of life
  /// of a retort on another machine, of which Lease::Options::on_wait tells; kRunBusy where the run is at work.
  static Result<RunLock> take(const std::filesystem::path& run_folder, Lease::Options options = {});
  /// For the worker of the one that took it.
  static Result<RunLock> join(const std::filesystem::path& run_folder);

 private:
  explicit RunLock(FolderLock lock) : lock_(std::move(lock)) {}
  FolderLock lock_;
};

/// How a run stands whose summary says `recorded`: "interrupted" where that is "running" and nobody holds the lock, for
/// it was killed; else what is recorded. Where the file system does not tell, it is taken at its word.
std::string status_now(const std::filesystem::path& run_folder, std::string recorded);

}  // namespace runner
