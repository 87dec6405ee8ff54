#pragma once

#include <filesystem>

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

}  // namespace runner
