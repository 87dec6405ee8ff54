#pragma once

#include <filesystem>
#include <string>

#include "runner/shared/error/exit_code.h"
#include "runner/shared/error/result.h"

namespace runner {

/// A task as the scheduler has started it.
struct TaskPlace {
  std::filesystem::path program;  ///< retort itself
  std::string name;               ///< the scheduler's, "12_3 on node7"
  std::string requeue;            ///< a shell command that queues it again; empty: there is none
};

/// `retort sweep task FOLDER INDEX`: runs one trial of the submission in `folder`, launch/N of a sweep, and tells how
/// it went in its account alone. What has finished is not run again; what was begun goes on from its checkpoint; a run
/// that somebody kills is continued at once, twice at most. SIGUSR1 (the time limit is near) has it save and be queued
/// again, SIGTERM and SIGINT have it save. kDone, kStoppedAfterSave, or as the trial has ended. Throws WriteError.
Result<ExitCode> run_task(const std::filesystem::path& folder, const std::string& index, const TaskPlace& place);

}  // namespace runner
