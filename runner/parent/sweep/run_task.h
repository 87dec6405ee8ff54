#pragma once

#include <deque>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "runner/parent/run/worker_process.h"
#include "runner/parent/sweep/sweep_journal.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/error/exit_code.h"

namespace runner {

/// How the scheduler started a task.
struct TaskPlace {
  std::filesystem::path program;  ///< the path of retort itself
  std::string name;               ///< the scheduler's name for the task, "12_3 on node7"
  std::string requeue;            ///< a shell command that requeues the task; empty: none
  /// The command, as words separated by spaces, that starts a trial once for each of its ranks
  /// (srun); empty: the trial starts its ranks itself.
  std::string ranks = {};
};

/// `retort sweep task FOLDER INDEX`: runs one trial of the submission in `folder`, launch/N of a
/// sweep, and writes its progress only to the task's own account. A finished trial is not run
/// again; a trial that was begun continues from its checkpoint; a killed run is continued
/// immediately, at most twice. On SIGUSR1 (the time limit is near), the trial saves and is
/// requeued; on SIGTERM and SIGINT, it saves. Returns kDone, kStoppedAfterSave, or the exit code of
/// the trial. Throws WriteError.
Result<ExitCode> run_task(const std::filesystem::path& folder, const std::string& index,
                          const TaskPlace& place);

/// Returns "status" from the summary.json of a run, such as "finished"; empty if there is none.
std::string run_status(const std::filesystem::path& run);

/// Returns the command with which retort at `program` runs trial `number`. It resumes a run that
/// was begun, if possible; otherwise, it starts a new run after moving any existing folder aside.
/// The `further` arguments are followed by `of_new` or `of_resumed`. If `anew` is set, never
/// resumes.
WorkerCommand trial_command(const SweepLayout& sweep, std::uint64_t number,
                            const std::filesystem::path& program,
                            const std::vector<std::string>& further,
                            const std::vector<std::string>& of_new = {},
                            const std::vector<std::string>& of_resumed = {}, bool anew = false);
/// True if `command` resumes a run.
bool is_resumed(const WorkerCommand& command);

/// Collects the last lines of text that arrives in chunks.
class LastLines {
 public:
  void add(std::string_view text);
  /// Returns at most 40 lines, without their newlines. Must be called once, at the end.
  std::deque<std::string> take();

 private:
  void end_line();
  std::string line_;
  std::deque<std::string> lines_;
};

/// Returns, on one line, why a trial failed: the first error among the last lines of its output, or
/// its exit code.
std::string failure_reason(const std::deque<std::string>& said, int exit);

}  // namespace runner
