#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runner/parent/sweep/sweep_journal.h"
#include "runner/shared/disk/new_file.h"

namespace runner {

/// Something that happened to a task of a cluster.
struct TaskEvent {
  TrialState state = TrialState::kRunning;  ///< running: an attempt began; else how it ended
  std::string place =
      {};        ///< of a beginning: "12_3 on node7", the scheduler's name of it and the host
  int exit = 0;  ///< the rest is of an end
  double seconds = 0;
  std::string reason = {};             ///< why it failed, a line
  std::vector<std::string> said = {};  ///< the last lines of what failed
};

/// What one task tells of itself: a file of JSON lines that nobody else writes, so that many
/// machines may work on one sweep. It only grows. Whoever follows the tasks reads them and alone
/// writes the sweep's journal.
class TaskAccount {
 public:
  /// The events so far, none where there is no file. A last line that is cut off, and what cannot
  /// be read, is left out.
  static std::vector<TaskEvent> read(const std::filesystem::path& path);

  /// To be continued, or begun. Throws WriteError.
  explicit TaskAccount(const std::filesystem::path& path, Storage& storage = disk());
  /// Throws WriteError. It is on the disk when this returns.
  void add(const TaskEvent& event);

 private:
  std::optional<NewFile> file_;
};

}  // namespace runner
