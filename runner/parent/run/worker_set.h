#pragma once

#include <chrono>
#include <csignal>
#include <deque>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "runner/shared/disk/descriptor.h"
#include "runner/parent/run/worker_process.h"

namespace runner {

/// Turns signals into something that poll() can wait for. While one lives, SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2,
/// SIGTSTP, SIGWINCH and SIGCHLD do nothing by themselves and SIGPIPE is ignored; its end restores what was before. A
/// signal that was ignored when it was made stays so (nohup, background jobs). No thread may be older than it, but the
/// one that makes it: such a thread would take the signals itself.
class SignalSource {
 public:
  SignalSource();
  ~SignalSource();
  SignalSource(const SignalSource&) = delete;
  SignalSource& operator=(const SignalSource&) = delete;

  /// Readable when next() has something to give.
  int descriptor() const { return *descriptor_; }
  /// The next signal that has come, without waiting.
  std::optional<int> next();

 private:
  Descriptor descriptor_;
  sigset_t old_mask_{};
  struct sigaction old_pipe_ {};
  struct sigaction old_child_ {};
};

/// Something that a worker of a set did. `worker` is valid until it is removed.
struct NewsOf {
  WorkerProcess* worker;
  WorkerNews news;
};
/// A signal sent to us: INT, TERM, HUP, USR1, USR2 or WINCH.
struct SignalToUs {
  int number;
};
struct Timeout {};

/// The running workers of this process, and the one place where it waits: for any of them, for signals and for the
/// time. While it lives, signals come only by next(), so there is one at a time.
///
///   WorkerSet workers;
///   auto worker = workers.start(command);
///   for (auto news = workers.next(); …; news = workers.next()) …
class WorkerSet {
 public:
  using Occurrence = std::variant<NewsOf, SignalToUs, Timeout>;

  /// Starts a worker; kWorkerMissing when that does not work. It runs until it ends or is removed.
  Result<WorkerProcess*> start(const WorkerCommand& command);
  /// Stops it if it still runs. What it did and next() has not told yet is dropped.
  void remove(const WorkerProcess& worker);

  /// Waits for the next thing to happen, at most `timeout`. What a worker wrote before it died comes before its
  /// WorkerExit; no worker's news hold up another's. Ctrl-Z stops the workers and this process, `fg` wakes them all.
  Occurrence next(std::optional<std::chrono::milliseconds> timeout = std::nullopt);

 private:
  /// False where nothing has come within that time; -1: however long it takes.
  bool wait(int milliseconds);
  void take(WorkerProcess& worker, std::vector<WorkerNews> news);
  void read_signals();

  SignalSource signals_;
  std::vector<std::unique_ptr<WorkerProcess>> workers_;
  std::deque<Occurrence> occurred_;
};

}  // namespace runner
