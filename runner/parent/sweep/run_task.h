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

/// How the scheduler has started a task.
struct TaskPlace {
  std::filesystem::path program;  ///< retort itself
  std::string name;               ///< the scheduler's, "12_3 on node7"
  std::string requeue;            ///< a shell command that queues it again; empty: there is none
  /// The words of the command, between blanks, that starts a trial once for each of its ranks
  /// (srun); empty: the trial starts them by itself.
  std::string ranks = {};
};

/// `retort sweep task FOLDER INDEX`: runs one trial of the submission in `folder`, launch/N of a
/// sweep, and writes its progress only to the task's own account. A finished trial is not run
/// again; one that was begun continues from its checkpoint; a run that is killed is continued at
/// once, at most twice. SIGUSR1 (the time limit is near) makes it save and be queued again; SIGTERM
/// and SIGINT make it save. Returns kDone, kStoppedAfterSave, or the exit code of the trial. Throws
/// WriteError.
Result<ExitCode> run_task(const std::filesystem::path& folder, const std::string& index,
                          const TaskPlace& place);

/// "status" in the summary.json of the run in `run`: "running", "finished"; empty if there is none.
std::string run_status(const std::filesystem::path& run);

/// The command by which retort at `program` runs trial `number`: it resumes a run that was begun,
/// if possible; else it starts a new run and sets aside what is in its place. `further` arguments
/// come last, then those in `of_new` or `of_resumed`. `anew`: do not trust the run that was begun.
WorkerCommand trial_command(const SweepLayout& sweep, std::uint64_t number,
                            const std::filesystem::path& program,
                            const std::vector<std::string>& further,
                            const std::vector<std::string>& of_new = {},
                            const std::vector<std::string>& of_resumed = {}, bool anew = false);
/// True if `command` resumes a run.
bool is_resumed(const WorkerCommand& command);

/// The last lines of a text that comes in pieces.
class LastLines {
 public:
  void add(std::string_view text);
  /// At most 40, without their newlines. Call it once, at the end.
  std::deque<std::string> take();

 private:
  void end_line();
  std::string line_;
  std::deque<std::string> lines_;
};

/// Why a trial failed, in a line: the first error among the last lines of its output, or its exit
/// code.
std::string failure_reason(const std::deque<std::string>& said, int exit);

}  // namespace runner
