#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "runner/protocol/event.h"
#include "runner/record/log.h"
#include "runner/stage/stage.h"
#include "stages/worker/requests.h"

namespace stages {

/// Serves one conversation with `retort`: says hello, reads one request, answers it, says how it ended.
/// The protocol is documented in runner/protocol/protocol.md.
class Worker {
 public:
  /// `requests` and `events` are open descriptors, borrowed. `stop_signal` becomes the number of a signal that asks
  /// the work to stop; it is watched, never written. `wants_save` becomes true when the work is to be saved; it is
  /// taken back here.
  Worker(int requests, int events, std::span<const runner::StageKind* const> kinds,
         std::span<const RequestKind> other_requests, const std::atomic<int>& stop_signal,
         std::atomic<bool>& wants_save);

  /// The code that the process is to exit with; it is in the last event too.
  runner::ExitCode serve();

 private:
  runner::ExitCode answer(const nlohmann::ordered_json& request);
  runner::ExitCode run(const nlohmann::ordered_json& request);
  runner::ExitCode answer_other(const RequestKind& kind, const nlohmann::ordered_json& request);
  [[noreturn]] void leave_lost_device(const std::string& node, const std::exception& error);
  runner::ExitCode report(const runner::Diagnostics& errors);
  runner::ExitCode stopped() const;
  bool is_stopped() const { return stop_signal_ != 0 || is_deaf_; }
  void emit(const runner::Event& event);
  void start_log(const nlohmann::ordered_json& request);
  void sync_metrics(const std::string& node);
  std::optional<nlohmann::ordered_json> next_request();
  std::optional<nlohmann::ordered_json> next_line(bool despite_signals);

  int requests_, events_;
  std::span<const runner::StageKind* const> kinds_;
  std::span<const RequestKind> other_requests_;
  const std::atomic<int>& stop_signal_;
  std::atomic<bool>& wants_save_;
  std::mutex emitting_;                // stages may speak from several threads
  std::atomic<bool> is_deaf_ = false;  // nobody listens any more
  std::string unread_;
  runner::Log log_;  // as the request wants it; what is logged goes to retort
};

}  // namespace stages
