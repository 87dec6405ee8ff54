#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "runner/protocol/event.h"
#include "runner/run/worker_process.h"

namespace runner {

/// What the owner of a conversation with a worker wants to know. Every member but `on_event` may be empty.
/// An exception from one of them leaves supervise(); destroying the WorkerProcess then stops the worker.
struct Conversation {
  std::function<void(const Event&, WorkerProcess&)> on_event;  ///< everything but Hello and Finished
  std::function<void(const Hello&)> on_hello;
  std::function<void(std::string_view)> on_output;  ///< a piece of what the worker printed
  std::function<void()> on_resize;                  ///< the terminal's size has changed
  /// Called now and then; says after how long it wants to be called again at the latest.
  std::function<std::optional<std::chrono::milliseconds>()> tick;
};

/// How a conversation ended.
struct Ending {
  ExitCode exit = ExitCode::kDone;
  Diagnostics errors;            ///< of supervision itself: a worker that died, mismatched or spoke nonsense
  bool interrupted = false;      ///< a signal stopped it before it was done
  std::optional<int> killed_by;  ///< the signal that ended the worker, unless it was ours
};

/// Hands `request` to a fresh worker and follows it to its end. SIGINT, SIGTERM and SIGHUP are passed on once, so that
/// the worker can save and stop at a step; another SIGINT kills it. SIGUSR1 and SIGUSR2 ask it to save and continue.
Ending supervise(WorkerProcess& worker, const nlohmann::ordered_json& request, const Conversation& conversation);

/// Starts a worker, asks it one thing that is no run, and gives back its answer; what it says goes to `on_event`.
Result<nlohmann::ordered_json> ask_worker(const WorkerCommand& command, const nlohmann::ordered_json& request,
                                          const Conversation& conversation = {});

/// "SIGKILL".
std::string signal_name(int number);

}  // namespace runner
