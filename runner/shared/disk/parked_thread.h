#pragma once

#include <chrono>
#include <functional>
#include <thread>

namespace runner {

/// A thread that does a little work now and then, but never while the process forks (fork(2)). The
/// child, which has only the thread that called fork, therefore finds no lock held by this thread.
/// Signals go to the other threads.
class ParkedThread {
 public:
  /// Calls `work` after each `interval` until it returns false or this is destroyed.
  ParkedThread(std::chrono::milliseconds interval, std::function<bool()> work);
  /// Waits for work in progress.
  ~ParkedThread();
  ParkedThread(const ParkedThread&) = delete;
  ParkedThread& operator=(const ParkedThread&) = delete;

  /// How many of them this process has; a forked child has none.
  static int count();

 private:
  std::jthread thread_;
};

}  // namespace runner
