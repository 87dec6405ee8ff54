#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/parent/run/worker_process.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/protocol/event.h"
#include "runner/shared/value/value.h"

namespace runner {

/// The commands of a recipe's `hooks`, each a program and its words, without a shell. Each gets the
/// event as a line of JSON on its standard input. They run one after the other while the worker
/// goes on; one that fails or takes too long is a kHookFailed, a warning. A validation that comes
/// while earlier commands run takes the place of one that still waits.
class Hooks {
 public:
  using Clock = std::function<std::chrono::steady_clock::time_point()>;
  using Warn = std::function<void(const Diagnostic& warning)>;

  /// `recipe`, resolved, is borrowed.
  Hooks(const Value& recipe, Clock clock, Warn warn);

  /// Notes what is measured on validation data. When a validation is complete, starts the commands
  /// of after_validation, which are told {"event", "run", "node", "step", "metrics"}.
  void see(const Event& event, const std::filesystem::path& run);
  /// Follows the running command and starts the next, without waiting. Returns when to call again;
  /// nullopt if no command runs.
  std::optional<std::chrono::milliseconds> tick();

  /// At the end of a run: waits for the running commands, then runs those of `moment`, "after_run"
  /// or "on_failure", with the run's summary. SIGINT, SIGTERM and SIGHUP end the wait.
  void finish(std::string_view moment, const std::filesystem::path& run,
              const nlohmann::ordered_json& summary);

 private:
  struct Call {
    std::string moment;
    std::vector<std::string> words;
    std::string event;
  };
  struct Validation {
    std::string node;
    std::int64_t step;
    nlohmann::ordered_json metrics;
  };
  void end_validation(const std::filesystem::path& run);
  void add(std::string_view moment, const nlohmann::ordered_json& event);
  void start_next();
  void hear(const WorkerNews& news);
  void end(const std::string& why);

  const Value* hooks_;  // null: none
  const Clock clock_;
  const Warn warn_;
  std::chrono::seconds limit_{60};
  std::set<std::string> reused_;          // nodes whose metrics an earlier run has measured
  std::optional<Validation> validation_;  // not complete yet
  std::deque<Call> waiting_;
  std::int64_t skipped_ = 0;  // validations
  std::optional<Call> running_;
  std::optional<WorkerProcess> process_;
  std::chrono::steady_clock::time_point deadline_;
  std::string last_output_;
};

}  // namespace runner
