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

/// What the owner of a conversation with a worker wants to know. Every member but `on_event` may be
/// empty. An exception from one of them leaves supervision, which stops all its workers.
struct Conversation {
  std::function<void(const Event&, WorkerProcess&)>
      on_event;  ///< everything but Hello and Finished
  std::function<void(const Hello&)> on_hello;
  std::function<void(std::string_view)> on_output;  ///< a piece of what the worker printed
  std::function<void()> on_resize;                  ///< the terminal's size has changed
  /// Called now and then; says after how long it wants to be called again at the latest.
  std::function<std::optional<std::chrono::milliseconds>()> tick;
};

/// How a conversation ended.
struct Ending {
  ExitCode exit =
      ExitCode::kDone;  ///< says_stopped() (stop.h): a signal stopped the worker before it was done
  Diagnostics errors =
      {};  ///< of supervision itself: a worker that died, mismatched or spoke nonsense
  std::optional<int> killed_by = {};  ///< the signal that ended the worker, unless it was ours
  bool was_deaf = false;              ///< it has not obeyed a signal in time, and was killed
};

/// Conversations with several workers in one loop. SIGINT, SIGTERM and SIGHUP are passed on to
/// every worker once, so that it can save and stop at a step; another SIGINT kills those that are
/// left, and so does the end of WorkerCommand::grace. SIGUSR1 and SIGUSR2 ask them to save and
/// continue. While it lives, signals are its own.
///
///   Supervision supervision;
///   for (const Job& job : jobs) supervision.start(command, job.request, conversation(job),
///   on_end(job)); supervision.run();
class Supervision {
 public:
  using OnEnd = std::function<void(const Ending&)>;

  Supervision();
  ~Supervision();

  /// Starts a worker, which gets `request` once it has greeted, and is told how much to log. Errors
  /// where it cannot be started; stopped_by() once a signal has asked for the end. run() calls
  /// `on_end`, which may start the next worker.
  Diagnostics start(const WorkerCommand& command, nlohmann::ordered_json request,
                    Conversation conversation, OnEnd on_end);
  /// Follows all workers to their ends.
  void run();

 private:
  class Dialogue;
  void take(const NewsOf& news);
  void handle_signal(int number);
  std::optional<std::chrono::milliseconds> tick();

  WorkerSet workers_;
  std::vector<std::unique_ptr<Dialogue>> dialogues_;
  std::optional<int> stop_signal_;  // the first that asked for the end
};

/// The same with one worker. Errors where it cannot be started.
Result<Ending> supervise(const WorkerCommand& command, nlohmann::ordered_json request,
                         Conversation conversation);

/// "SIGKILL".
std::string signal_name(int number);

}  // namespace runner
