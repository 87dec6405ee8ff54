#pragma once

#include <array>
#include <chrono>
#include <csignal>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <poll.h>
#include <sys/types.h>

#include "runner/shared/disk/descriptor.h"
#include "runner/shared/disk/installation.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/error/log_level.h"

namespace runner {

/// Finds the worker next to the program at `own_executable`, or in ../libexec; never on PATH.
Result<std::filesystem::path> find_worker(const std::filesystem::path& own_executable);

/// Finds retort-tracker (runner/tracker/tracker.h) in the same way.
Result<std::filesystem::path> find_tracker(const std::filesystem::path& own_executable);

/// How to start a worker. Workers send their events on descriptor 3.
struct WorkerCommand {
  std::filesystem::path program;
  std::vector<std::string> arguments = {"--events-fd", "3"};
  /// True if `program` is a Python interpreter, which must load the worker before the worker can
  /// send its greeting. If it exits before the greeting, the cause is its environment (kNoPython).
  bool is_hosted = false;
  LogLevel log = LogLevel::kInfo;  ///< level of the log lines that the worker sends
  /// "NAME=value" environment variables for the worker, overriding those of this process.
  std::vector<std::string> variables = {};
  /// Runs in the child with `arguments` instead of executing `program`; returns the exit code and
  /// must not throw. The child has a copy of this process's memory, so data such as the schemas is
  /// already loaded. It inherits only descriptors 0 to 3. If this process has another thread,
  /// `program` is executed anyway.
  std::function<int(const std::vector<std::string>& arguments)> body = {};
  /// How long the worker may take to stop after a signal before it is killed; 0: no limit.
  std::chrono::milliseconds grace = std::chrono::seconds(60);
};

/// One line of the protocol.
struct EventLine {
  std::string text;
};
/// More than kMaxLine bytes without a newline; the rest is not read.
struct OverlongLine {};
/// A chunk of the worker's output, stdout and stderr interleaved.
struct OutputText {
  std::string text;
};
/// The last event from a worker. `signal` is 0 unless a signal killed the worker.
struct WorkerExit {
  int exit;
  int signal;
};
using WorkerNews = std::variant<EventLine, OverlongLine, OutputText, WorkerExit>;

inline constexpr std::size_t kMaxLine = 16 << 20;

/// A running worker and the pipes to it. The worker is in its own process group and dies with this
/// process. The destructor kills the group and waits for the worker.
///
/// Never waits: a WorkerSet polls the descriptors that watched() returns, passes the result to
/// serve(), and calls collect() when a child has ended.
class WorkerProcess {
 public:
  /// Starts the worker; kWorkerMissing if that fails, or kNoPython if the worker is hosted. SIGPIPE
  /// must be ignored (SignalSource) while the worker runs.
  static Result<WorkerProcess> start(const WorkerCommand& command);
  WorkerProcess(WorkerProcess&&) noexcept = default;
  WorkerProcess& operator=(WorkerProcess&&) = delete;
  ~WorkerProcess();

  /// Queues a line, with a newline added, for the worker's stdin; serve() writes it as fast as the
  /// worker reads.
  void send(std::string_view line);
  /// Closes the worker's stdin once everything queued has been written.
  void end_input();
  /// Sends a signal to the worker only; SIGKILL goes to its whole group.
  void signal(int number);
  /// Sends a signal to the worker and all processes that it has started.
  void signal_group(int number);

  /// Descriptors for requests, events, output and the worker's exit; -1 where there is nothing to
  /// wait for.
  using Watched = std::array<pollfd, 4>;
  Watched watched() const;
  /// Writes to and reads from the descriptors that poll() found ready, one chunk each. Appends
  /// received data to `news`.
  void serve(const Watched& ready, std::vector<WorkerNews>& news);
  /// If the worker has exited, appends its last output and then its WorkerExit.
  void collect(std::vector<WorkerNews>& news);

 private:
  WorkerProcess() = default;
  void read_events(std::vector<WorkerNews>& news);
  void read_output(std::vector<WorkerNews>& news);
  void write_requests();

  struct Pid {  // the value is 0 after a move
    pid_t value = 0;
    Pid() = default;
    Pid(Pid&& other) noexcept : value(std::exchange(other.value, 0)) {}
  } pid_;
  Descriptor requests_, events_, output_;
  Descriptor end_;  // the worker's pidfd; closed if the kernel has none (before Linux 5.3)
  std::string unsent_, partial_line_;
  std::size_t sent_ = 0;  // bytes at the front of unsent_
  bool input_ends_ = false;
};

/// Turns signals into something poll() can wait for. While a SignalSource exists, SIGINT, SIGTERM,
/// SIGHUP, SIGUSR1, SIGUSR2, SIGTSTP, SIGWINCH and SIGCHLD have no other effect and SIGPIPE is
/// ignored; the destructor restores the previous state. A signal that was already ignored stays
/// ignored (nohup, background jobs). Must be created before any other thread, since existing
/// threads would receive the signals themselves.
class SignalSource {
 public:
  SignalSource();
  ~SignalSource();
  SignalSource(const SignalSource&) = delete;
  SignalSource& operator=(const SignalSource&) = delete;

  /// Readable when next() has a signal to return.
  int descriptor() const { return *descriptor_; }
  /// Returns the next signal received, without waiting; nullopt if there is none.
  std::optional<int> next();

 private:
  Descriptor descriptor_;
  sigset_t old_mask_{};
  struct sigaction old_pipe_ {};
  struct sigaction old_child_ {};
};

/// An event from a worker in a WorkerSet. `worker` is valid until it is removed.
struct NewsOf {
  WorkerProcess* worker;
  WorkerNews news;
};
/// A signal sent to this process: INT, TERM, HUP, USR1, USR2 or WINCH.
struct SignalToUs {
  int number;
};
struct Timeout {};

/// The running workers of this process, and the only place where it waits for workers, signals and
/// timeouts. While a WorkerSet exists, signals arrive only through next(), so there can be only one
/// WorkerSet at a time.
///
///   WorkerSet workers;
///   auto worker = workers.start(command);
///   for (auto news = workers.next(); …; news = workers.next()) …
class WorkerSet {
 public:
  using Occurrence = std::variant<NewsOf, SignalToUs, Timeout>;

  /// Starts a worker; kWorkerMissing if that fails. The worker runs until it exits or is removed.
  Result<WorkerProcess*> start(const WorkerCommand& command);
  /// Stops the worker if it is still running. Drops any of its news not yet returned by next().
  void remove(const WorkerProcess& worker);

  /// Waits up to `timeout` for the next event. Everything that a worker wrote before it died comes
  /// before its WorkerExit; a busy worker does not delay the other workers' news. Ctrl-Z suspends
  /// the workers and this process; `fg` resumes them all.
  Occurrence next(std::optional<std::chrono::milliseconds> timeout = std::nullopt);

 private:
  /// Waits for an event; -1: no limit. Returns false if nothing arrived in that time.
  bool wait(int milliseconds);
  void take(WorkerProcess& worker, std::vector<WorkerNews> news);
  void read_signals();

  SignalSource signals_;
  std::vector<std::unique_ptr<WorkerProcess>> workers_;
  std::deque<Occurrence> occurred_;
};

/// For waiting while no worker is running. While a SignalWait exists, a stop signal only ends the
/// wait; Ctrl-Z suspends this process.
class SignalWait {
 public:
  /// Waits for `time`, or until SIGINT, SIGTERM or SIGHUP arrives. Returns that signal; nullopt if
  /// none arrived.
  std::optional<int> operator()(std::chrono::steady_clock::duration time);

 private:
  WorkerSet nobody_;
};

}  // namespace runner
