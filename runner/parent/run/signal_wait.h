#pragma once

#include <chrono>
#include <optional>

#include "runner/parent/run/worker_set.h"

namespace runner {

/// Waits in which no worker is at work. While it lives, a signal that asks for the end does nothing but end them;
/// Ctrl-Z stops this process.
class SignalWait {
 public:
  /// Waits that long, or until SIGINT, SIGTERM or SIGHUP comes: which it was.
  std::optional<int> operator()(std::chrono::steady_clock::duration time);

 private:
  WorkerSet nobody_;
};

}  // namespace runner
