#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runner/parent/sweep/sweep_journal.h"
#include "runner/shared/disk/new_file.h"

namespace runner {

/// An event of a cluster task.
struct TaskEvent {
  TrialState state = TrialState::kRunning;  ///< running: an attempt began; otherwise how it ended
  /// At the start of an attempt: the scheduler's name for the task, and the host, "12_3 on node7".
  std::string place = {};
  int exit = 0;  ///< `exit` and the members after it are set at the end
  double seconds = 0;
  std::string reason = {};             ///< why it failed, in one line
  std::vector<std::string> said = {};  ///< the last lines of a failed attempt's output
};

/// The account of one task: a file of JSON lines written only by this task, so that many machines
/// can work on one sweep. It is only ever appended to. The process that follows the tasks reads the
/// accounts; only that process writes the sweep's journal.
class TaskAccount {
 public:
  /// Returns the events so far; none if there is no file. Skips unreadable lines and an incomplete
  /// last line.
  static std::vector<TaskEvent> read(const std::filesystem::path& path);

  /// Opens or creates the file. Throws WriteError.
  explicit TaskAccount(const std::filesystem::path& path, Storage& storage = disk());
  /// Adds an event; it is on disk when add() returns. Throws WriteError.
  void add(const TaskEvent& event);

 private:
  std::optional<NewFile> file_;
};

}  // namespace runner
