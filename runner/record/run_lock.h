#pragma once

#include <filesystem>
#include <string>

#include "runner/disk/descriptor.h"
#include "runner/error/result.h"

namespace runner {

/// Who works on a run holds a lock on its folder: on .retort, by flock(2), so that it ends with the process
/// however that ends. retort and its worker hold it together; nobody can resume the run before both have gone.
class RunLock {
 public:
  /// For the retort that runs or resumes it. Waits a moment for a worker whose retort was killed; kRunBusy where the
  /// run is at work all the same.
  static Result<RunLock> take(const std::filesystem::path& run_folder);
  /// For the worker of the one that took it.
  static Result<RunLock> join(const std::filesystem::path& run_folder);

 private:
  explicit RunLock(Descriptor file) : file_(std::move(file)) {}
  Descriptor file_;
};

/// How a run stands whose summary says `recorded`: "interrupted" where that is "running" and nobody holds the lock, for
/// it was killed; else what is recorded. Where the file system does not tell, it is taken at its word.
std::string status_now(const std::filesystem::path& run_folder, std::string recorded);

}  // namespace runner
