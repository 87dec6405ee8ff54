#pragma once

#include <chrono>
#include <functional>
#include <thread>

namespace runner {

/// A thread that does a little work now and then, and never while the process is copied (fork(2)):
/// the copy, which has the thread alone that made it, finds nothing that this one held. Signals are
/// for the threads that were there before.
class ParkedThread {
 public:
  /// Does `work` after each `interval`, until that is false or this ends.
  ParkedThread(std::chrono::milliseconds interval, std::function<bool()> work);
  /// Waits for what is under way.
  ~ParkedThread();
  ParkedThread(const ParkedThread&) = delete;
  ParkedThread& operator=(const ParkedThread&) = delete;

  /// How many of them this process has; a copy has none.
  static int count();

 private:
  std::jthread thread_;
};

}  // namespace runner
