#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/parent/run/worker_process.h"
#include "runner/shared/protocol/event.h"

namespace runner {

/// Callbacks of a conversation with a worker. Every member except `on_event` may be empty. An
/// exception from a callback propagates out of the supervision, which then stops all its workers.
struct Conversation {
  /// Called for every event except Hello and Finished.
  std::function<void(const Event&, WorkerProcess&)> on_event;
  std::function<void(const Hello&)> on_hello;
  std::function<void(std::string_view)> on_output;  ///< receives chunks of the worker's output
  std::function<void()> on_resize;                  ///< called when the terminal's size has changed
  /// Called periodically; returns the maximum time until the next call.
  std::function<std::optional<std::chrono::milliseconds>()> tick;
  bool obeys_signals = true;                ///< false: signals to stop or save are not passed on
  std::function<void(int number)> on_stop;  ///< called for a stop signal that is not passed on
};

/// How a conversation ended.
struct Ending {
  /// says_stopped() (diagnostic.h) is true if a signal stopped the worker before it had finished.
  ExitCode exit = ExitCode::kDone;
  /// Problems found by the supervision: a worker died, had a different version or sent invalid
  /// lines.
  Diagnostics errors = {};
  /// The signal that killed the worker, unless this process sent it.
  std::optional<int> killed_by = {};
  bool was_deaf = false;  ///< it did not stop in time after a signal, and was killed
};

/// Holds conversations with several workers in one loop. SIGINT, SIGTERM and SIGHUP are passed on
/// to each worker once, so that it can save and stop at a step. Workers that are still running are
/// killed on a second SIGINT or after WorkerCommand::grace. SIGUSR1 and SIGUSR2 make workers save
/// and continue. While a Supervision exists, it receives this process's signals.
///
///   Supervision supervision;
///   for (const Work& work : all)
///     supervision.start(command, work.request, conversation(work), on_end(work));
///   supervision.run();
class Supervision {
 public:
  using OnEnd = std::function<void(const Ending&)>;

  Supervision();
  ~Supervision();

  /// Starts a worker and, after its greeting, sends it `request` and its log level. Returns errors
  /// if it cannot be started; stopped_by() once a signal has requested a stop. run() calls `on_end`
  /// when the worker has exited; `on_end` may start the next worker.
  Diagnostics start(const WorkerCommand& command, nlohmann::ordered_json request,
                    Conversation conversation, OnEnd on_end);
  /// Follows all workers until they exit.
  void run();
  /// Kills the workers that are still running; for use in callbacks.
  void kill_others();

 private:
  class Dialogue;
  void take(const NewsOf& news);
  void handle_signal(int number);
  std::optional<std::chrono::milliseconds> tick();

  WorkerSet workers_;
  std::vector<std::unique_ptr<Dialogue>> dialogues_;
  std::optional<int> stop_signal_;  // the first signal that requested a stop
};

/// Runs a Supervision with a single worker. Returns errors if the worker cannot be started.
Result<Ending> supervise(const WorkerCommand& command, nlohmann::ordered_json request,
                         Conversation conversation);

/// Returns the shorter of the two times; nullopt if neither is set.
std::optional<std::chrono::milliseconds> sooner(std::optional<std::chrono::milliseconds> one,
                                                std::optional<std::chrono::milliseconds> other);

/// Returns the signal's name, such as "SIGKILL"; "signal N" for a signal without one.
std::string signal_name(int number);

}  // namespace runner
