#pragma once

#include <sys/types.h>

#include <chrono>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "runner/disk/descriptor.h"
#include "runner/disk/installation.h"
#include "runner/error/result.h"
#include "runner/run/signal_source.h"

namespace runner {

/// The worker beside the program at `own_executable`, or in ../libexec; never one found on PATH.
Result<std::filesystem::path> find_worker(const std::filesystem::path& own_executable);

/// How to start a worker; its events come on descriptor 3.
struct WorkerCommand {
  std::filesystem::path program;
  std::vector<std::string> arguments = {"--events-fd", "3"};
};

struct EventLine {
  std::string text;
};                      ///< one line of the protocol
struct LineTooLong {};  ///< more than kMaxLine bytes without a newline; the rest is not read
struct OutputText {
  std::string text;
};  ///< a piece of what the worker printed, stdout and stderr as they came
struct Signalled {
  int number;
};  ///< a signal sent to us: INT, TERM, HUP, USR1, USR2 or WINCH
struct Ended {
  int exit;
  int signal;
};  ///< the last of all; `signal` is 0 unless one killed it
struct TimedOut {};
using Happening = std::variant<EventLine, LineTooLong, OutputText, Signalled, Ended, TimedOut>;

inline constexpr std::size_t kMaxLine = 16 << 20;

/// A running worker and the pipes to it. It is in a process group of its own and dies with this process.
/// Destroying this kills the group and waits for it.
class WorkerProcess {
 public:
  /// Starts it; kWorkerMissing when that does not work. `signals` must outlive the process.
  static Result<WorkerProcess> start(const WorkerCommand& command, SignalSource& signals);
  WorkerProcess(WorkerProcess&&) noexcept = default;
  WorkerProcess& operator=(WorkerProcess&&) = delete;
  ~WorkerProcess();

  /// Queues one line for its stdin, newline added; next() writes it as fast as the worker reads.
  void send(std::string_view line);
  /// Sends a signal to the worker alone; SIGKILL goes to its whole group.
  void signal(int number);
  /// Waits for the next thing to happen, at most `timeout`. What a worker wrote before it died comes before Ended.
  Happening next(std::optional<std::chrono::milliseconds> timeout = std::nullopt);

 private:
  WorkerProcess(SignalSource& signals) : signals_(&signals) {}
  void read_events();
  void read_output();
  void read_signals();
  void write_requests();
  void collect_if_ended();

  SignalSource* signals_;
  struct Pid {  // moved from: 0
    pid_t value = 0;
    Pid() = default;
    Pid(Pid&& other) noexcept : value(std::exchange(other.value, 0)) {}
  } pid_;
  Descriptor requests_, events_, output_;
  std::string unsent_, partial_line_;
  std::size_t sent_ = 0;  // bytes at the front of unsent_
  std::deque<Happening> happened_;
};

}  // namespace runner
