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

/// The worker beside the program at `own_executable`, or in ../libexec; never one found on PATH.
Result<std::filesystem::path> find_worker(const std::filesystem::path& own_executable);

/// How to start a worker; its events come on descriptor 3.
struct WorkerCommand {
  std::filesystem::path program;
  std::vector<std::string> arguments = {"--events-fd", "3"};
  LogLevel log = LogLevel::kInfo;  ///< of the lines that it tells
  /// "NAME=value" of its environment, in place of what this process has.
  std::vector<std::string> variables = {};
  /// What the child does with `arguments` in place of executing `program`; its exit code. It has a
  /// copy of this process' memory and nothing of its descriptors but 0 to 3, and must throw
  /// nothing. What is read already, such as the schemas, need not be read again. Where this process
  /// has another thread, `program` is executed all the same.
  std::function<int(const std::vector<std::string>& arguments)> body = {};
  /// How long it may take to obey a signal that asks for its end, before it is killed; 0: however
  /// long.
  std::chrono::milliseconds grace = std::chrono::seconds(60);
};

/// One line of the protocol.
struct EventLine {
  std::string text;
};
/// More than kMaxLine bytes without a newline; the rest is not read.
struct OverlongLine {};
/// A piece of what the worker printed, stdout and stderr as they came.
struct OutputText {
  std::string text;
};
/// The last of all; `signal` is 0 unless one killed it.
struct WorkerExit {
  int exit;
  int signal;
};
using WorkerNews = std::variant<EventLine, OverlongLine, OutputText, WorkerExit>;

inline constexpr std::size_t kMaxLine = 16 << 20;

/// A running worker and the pipes to it. It is in a process group of its own and dies with this
/// process. Destroying this kills the group and waits for it.
///
/// Passive: it never waits. A WorkerSet polls what watched() says, has it serve() that, and calls
/// collect() when a child has ended.
class WorkerProcess {
 public:
  /// Starts it; kWorkerMissing when that does not work. SIGPIPE must be ignored meanwhile
  /// (worker_set.h).
  static Result<WorkerProcess> start(const WorkerCommand& command);
  WorkerProcess(WorkerProcess&&) noexcept = default;
  WorkerProcess& operator=(WorkerProcess&&) = delete;
  ~WorkerProcess();

  /// Queues one line for its stdin, newline added; serve() writes it as fast as the worker reads.
  void send(std::string_view line);
  /// Sends a signal to the worker alone; SIGKILL goes to its whole group.
  void signal(int number);
  /// Sends a signal to the worker and all that it has started.
  void signal_group(int number);

  /// Its requests, events and output; a descriptor of -1 where there is nothing to wait for.
  using Watched = std::array<pollfd, 3>;
  Watched watched() const;
  /// Writes and reads what poll() found ready, a piece of each. Appends to `news` what has come.
  void serve(const Watched& ready, std::vector<WorkerNews>& news);
  /// Where it has ended, appends what it wrote before that and then its WorkerExit.
  void collect(std::vector<WorkerNews>& news);

 private:
  WorkerProcess() = default;
  void read_events(std::vector<WorkerNews>& news);
  void read_output(std::vector<WorkerNews>& news);
  void write_requests();

  struct Pid {  // moved from: 0
    pid_t value = 0;
    Pid() = default;
    Pid(Pid&& other) noexcept : value(std::exchange(other.value, 0)) {}
  } pid_;
  Descriptor requests_, events_, output_;
  std::string unsent_, partial_line_;
  std::size_t sent_ = 0;  // bytes at the front of unsent_
};

/// Turns signals into something that poll() can wait for. While one lives, SIGINT, SIGTERM, SIGHUP,
/// SIGUSR1, SIGUSR2, SIGTSTP, SIGWINCH and SIGCHLD do nothing by themselves and SIGPIPE is ignored;
/// its end restores what was before. A signal that was ignored when it was made stays so (nohup,
/// background jobs). No thread may be older than it, but the one that makes it: such a thread would
/// take the signals itself.
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

/// The running workers of this process, and the one place where it waits: for any of them, for
/// signals and for the time. While it lives, signals come only by next(), so there is one at a
/// time.
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

  /// Waits for the next thing to happen, at most `timeout`. What a worker wrote before it died
  /// comes before its WorkerExit; no worker's news hold up another's. Ctrl-Z stops the workers and
  /// this process, `fg` wakes them all.
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

/// Waits in which no worker is at work. While it lives, a signal that asks for the end does nothing
/// but end them; Ctrl-Z stops this process.
class SignalWait {
 public:
  /// Waits that long, or until SIGINT, SIGTERM or SIGHUP comes: which it was.
  std::optional<int> operator()(std::chrono::steady_clock::duration time);

 private:
  WorkerSet nobody_;
};

}  // namespace runner
