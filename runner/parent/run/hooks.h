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

/// Runs the commands in a recipe's `hooks`. Each is a program and its arguments, run without a
/// shell, and receives the event as a line of JSON on its standard input. Commands run one after
/// another while the worker continues. If one fails or takes too long, a kHookFailed warning is
/// reported. A new validation replaces any validation that is still waiting for earlier commands to
/// finish.
class Hooks {
 public:
  using Clock = std::function<std::chrono::steady_clock::time_point()>;
  using Warn = std::function<void(const Diagnostic& warning)>;

  /// `recipe` must be resolved; it is borrowed.
  Hooks(const Value& recipe, Clock clock, Warn warn);

  /// Collects validation metrics. When a validation is complete, starts the after_validation
  /// commands with {"event", "run", "node", "step", "metrics"} as their input.
  void see(const Event& event, const std::filesystem::path& run);
  /// Checks the running command and starts the next one, without waiting. Returns the time until
  /// the next call; nullopt if no command is running.
  std::optional<std::chrono::milliseconds> tick();

  /// At the end of a run: waits for running commands to finish, then runs the commands for
  /// `moment`, "after_run" or "on_failure", with the run's summary. SIGINT, SIGTERM and SIGHUP end
  /// the wait.
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
  std::set<std::string> reused_;          // nodes with metrics from an earlier run
  std::optional<Validation> validation_;  // not complete yet
  std::deque<Call> waiting_;
  std::int64_t skipped_ = 0;  // number of validations not reported
  std::optional<Call> running_;
  std::optional<WorkerProcess> process_;
  std::chrono::steady_clock::time_point deadline_;
  std::string last_output_;
};

}  // namespace runner
