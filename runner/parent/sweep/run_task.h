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

/// A task as the scheduler has started it.
struct TaskPlace {
  std::filesystem::path program;  ///< retort itself
  std::string name;               ///< the scheduler's, "12_3 on node7"
  std::string requeue;            ///< a shell command that queues it again; empty: there is none
};

/// `retort sweep task FOLDER INDEX`: runs one trial of the submission in `folder`, launch/N of a
/// sweep, and tells how it went in its account alone. What has finished is not run again; what was
/// begun goes on from its checkpoint; a run that somebody kills is continued at once, twice at
/// most. SIGUSR1 (the time limit is near) has it save and be queued again, SIGTERM and SIGINT have
/// it save. kDone, kStoppedAfterSave, or as the trial has ended. Throws WriteError.
Result<ExitCode> run_task(const std::filesystem::path& folder, const std::string& index,
                          const TaskPlace& place);

/// "status" of the summary.json of the run in `run`: "running", "finished"; empty where there is
/// none.
std::string run_status(const std::filesystem::path& run);

/// How trial `number` is run by retort at `program`: as a run that is resumed where one was begun
/// that can be; else as a new one, and what is in its place is set aside. `further` arguments are
/// its last, then those `of_new` or `of_resumed` ones. `anew`: what was begun there is not to be
/// trusted.
WorkerCommand trial_command(const SweepLayout& sweep, std::uint64_t number,
                            const std::filesystem::path& program,
                            const std::vector<std::string>& further,
                            const std::vector<std::string>& of_new = {},
                            const std::vector<std::string>& of_resumed = {}, bool anew = false);
/// Is `command` that of a run that is resumed?
bool is_resumed(const WorkerCommand& command);

/// The last lines of a text that comes in pieces.
class LastLines {
 public:
  void add(std::string_view text);
  /// At most 40, without their newlines. To be called once, last.
  std::deque<std::string> take();

 private:
  void end_line();
  std::string line_;
  std::deque<std::string> lines_;
};

/// Why a trial failed, in a line: the first error among the last lines that it said, or its exit
/// code.
std::string failure_reason(const std::deque<std::string>& said, int exit);

}  // namespace runner
