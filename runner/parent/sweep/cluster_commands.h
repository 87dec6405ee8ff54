#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "runner/parent/run/worker_set.h"

namespace runner {

/// The commands of a scheduler, each of which may take its time or never end, and the waits between them. While it
/// lives, signals come by wait() only.
class ClusterCommands {
 public:
  struct Outcome {
    int exit = -1;           ///< 128 + signal where one killed it; -1: it could not be started
    bool is_silent = false;  ///< it had not ended in time, and was killed
    std::string said;        ///< on both streams
  };
  /// Runs a program, found on PATH, with its arguments, for at most `patience`.
  Outcome run(const std::vector<std::string>& words, std::chrono::milliseconds patience);
  /// Waits that long, or until SIGINT, SIGTERM or SIGHUP comes or has come meanwhile: which it was.
  std::optional<int> wait(std::chrono::milliseconds time);

 private:
  std::optional<int> stopped_by_;
  WorkerSet set_;
};

}  // namespace runner
