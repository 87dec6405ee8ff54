#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <mutex>
#include <span>
#include <string>

#include <nlohmann/json.hpp>

#include "runner/shared/protocol/event.h"
#include "runner/shared/record/log.h"
#include "runner/shared/stage/stage.h"
#include "stages/worker/requests.h"

namespace stages {

/// The requests received as signals.
struct WorkerSignals {
  std::atomic<int> stop = 0;       ///< number of the first signal that requested a stop; 0 if none
  std::atomic<bool> save = false;  ///< a save was requested; cleared by the code that saves
};

/// From now on, SIGINT, SIGTERM and SIGHUP request that this process stop, and SIGUSR1 and SIGUSR2
/// request a save. SIGPIPE is ignored.
WorkerSignals& watch_signals();

/// Serves one conversation with `retort`: says hello, reads one request, answers it, and reports
/// the outcome. The protocol is documented in runner/shared/protocol/protocol.md.
class Worker {
 public:
  /// `requests` and `events` are open file descriptors. They and `signals` are borrowed.
  Worker(int requests, int events, std::span<const runner::StageKind* const> kinds,
         std::span<const RequestKind> other_requests, WorkerSignals& signals);

  /// Returns the exit code of the process, which is also in the last event.
  runner::ExitCode serve();

 private:
  class GraphRequest;  // graph_request.h

  runner::ExitCode answer(const nlohmann::ordered_json& request);
  runner::ExitCode answer_other(const RequestKind& kind, const nlohmann::ordered_json& request);
  [[noreturn]] void leave_lost_device(const std::string& node, const std::exception& error);
  runner::ExitCode report(const runner::Diagnostics& errors);
  bool is_stopped() const { return signals_.stop != 0 || is_deaf_; }
  void emit(const runner::Event& event);
  void start_log(const nlohmann::ordered_json& request);
  void sync_metrics(const std::string& node);
  nlohmann::ordered_json next_request();
  nlohmann::ordered_json next_line(bool despite_signals);

  int requests_, events_;
  std::span<const runner::StageKind* const> kinds_;
  std::span<const RequestKind> other_requests_;
  WorkerSignals& signals_;
  std::mutex emitting_;                // stages may emit from several threads
  std::atomic<bool> is_deaf_ = false;  // the other end has closed the event stream
  bool has_saved_ = false;             // true if a stopped run can be resumed
  std::string unread_;
  nlohmann::ordered_json versions_;  // all_versions()
  runner::Log log_;                  // as the request configures it; entries are sent to retort
};

}  // namespace stages
