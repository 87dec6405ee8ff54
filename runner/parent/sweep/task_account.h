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
  TrialState state = TrialState::kRunning;  ///< running: an attempt began; else how it ended
  std::string place = {};  ///< at the start of an attempt: "12_3 on node7", the scheduler's name
                           ///< for it and the host
  int exit = 0;            ///< this and the rest are set at the end
  double seconds = 0;
  std::string reason = {};             ///< why it failed, a line
  std::vector<std::string> said = {};  ///< the last lines of a failed attempt's output
};

/// The account of one task: a file of JSON lines that only this task writes, so that many machines
/// may work on one sweep. It only grows. The process that follows the tasks reads the accounts, and
/// is the only one to write the sweep's journal.
class TaskAccount {
 public:
  /// The events so far; none if there is no file. A last line that is cut off, and lines that
  /// cannot be read, are left out.
  static std::vector<TaskEvent> read(const std::filesystem::path& path);

  /// Opens or creates the file. Throws WriteError.
  explicit TaskAccount(const std::filesystem::path& path, Storage& storage = disk());
  /// Throws WriteError. The event is on the disk when this returns.
  void add(const TaskEvent& event);

 private:
  std::optional<NewFile> file_;
};

}  // namespace runner
