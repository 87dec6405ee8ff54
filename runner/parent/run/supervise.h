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
/// exception from one of them leaves the supervision, which stops all its workers.
struct Conversation {
  std::function<void(const Event&, WorkerProcess&)>
      on_event;  ///< every event except Hello and Finished
  std::function<void(const Hello&)> on_hello;
  std::function<void(std::string_view)> on_output;  ///< a piece of what the worker printed
  std::function<void()> on_resize;                  ///< the terminal's size has changed
  /// Called now and then; returns the longest time until the next call.
  std::function<std::optional<std::chrono::milliseconds>()> tick;
  bool obeys_signals = true;                ///< false: signals to stop or to save are not passed on
  std::function<void(int number)> on_stop;  ///< a signal asks to stop, and is not passed on
};

/// How a conversation ended.
struct Ending {
  ExitCode exit = ExitCode::kDone;  ///< says_stopped() (diagnostic.h): a signal stopped the worker
                                    ///< before it was done
  Diagnostics errors = {};  ///< of the supervision itself: a worker that died, had another version
                            ///< or sent invalid lines
  std::optional<int> killed_by = {};  ///< the signal that ended the worker, unless we sent it
  bool was_deaf = false;              ///< it did not obey a signal in time, and was killed
};

/// Conversations with several workers in one loop. SIGINT, SIGTERM and SIGHUP are passed on to
/// every worker once, so that it can save and stop at a step. Another SIGINT kills the remaining
/// workers, and so does the end of WorkerCommand::grace. SIGUSR1 and SIGUSR2 ask them to save and
/// continue. While it lives, it receives this process's signals.
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

  /// Starts a worker, which gets `request` and its log level after its greeting. Errors if it
  /// cannot be started; stopped_by() once a signal has asked to stop. run() calls `on_end`, which
  /// may start the next worker.
  Diagnostics start(const WorkerCommand& command, nlohmann::ordered_json request,
                    Conversation conversation, OnEnd on_end);
  /// Follows all workers until they end.
  void run();
  /// Kills the workers that still run; called by a callback.
  void kill_others();

 private:
  class Dialogue;
  void take(const NewsOf& news);
  void handle_signal(int number);
  std::optional<std::chrono::milliseconds> tick();

  WorkerSet workers_;
  std::vector<std::unique_ptr<Dialogue>> dialogues_;
  std::optional<int> stop_signal_;  // the first signal that asked to stop
};

/// The same with one worker. Errors if it cannot be started.
Result<Ending> supervise(const WorkerCommand& command, nlohmann::ordered_json request,
                         Conversation conversation);

/// The shorter of two times, if any.
std::optional<std::chrono::milliseconds> sooner(std::optional<std::chrono::milliseconds> one,
                                                std::optional<std::chrono::milliseconds> other);

/// "SIGKILL".
std::string signal_name(int number);

}  // namespace runner
