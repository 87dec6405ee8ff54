#pragma once

#include <chrono>
#include <csignal>
#include <functional>
#include <thread>

namespace runner {

/// Blocks all signals in this thread while the object exists. Threads started in the meantime
/// inherit the blocked signals, so the process's signals reach other threads, such as the one with
/// a SignalSource.
class [[nodiscard]] BlockedSignals {
 public:
  BlockedSignals();
  ~BlockedSignals();
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

/// A thread that periodically does a little work, but never while the process forks (fork(2)). The
/// child, which has only the thread that called fork, therefore never inherits a lock held by this
/// thread. The thread blocks all signals, so other threads receive them.
class ParkedThread {
 public:
  /// Calls `work` after each `interval` until it returns false or the ParkedThread is destroyed.
  ParkedThread(std::chrono::milliseconds interval, std::function<bool()> work);
  /// Waits for any work in progress.
  ~ParkedThread();
  ParkedThread(const ParkedThread&) = delete;
  ParkedThread& operator=(const ParkedThread&) = delete;

  /// Returns the number of such threads in this process. A forked child has none.
  static int count();

 private:
  std::jthread thread_;
};

}  // namespace runner
