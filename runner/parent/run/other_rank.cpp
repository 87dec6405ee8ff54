#include "runner/parent/run/other_rank.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <optional>
#include <ostream>
#include <string>

#include <nlohmann/json.hpp>

#include "runner/parent/config/secret.h"
#include "runner/parent/record/run_folder.h"
#include "runner/parent/run/run_request.h"
#include "runner/parent/run/supervise.h"
#include "runner/parent/run/worker_output.h"
#include "runner/shared/disk/write_error.h"
#include "runner/shared/record/log.h"
#include "runner/shared/stage/run_layout.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

class OtherRank {
 public:
  OtherRank(const RunRequest& request, const RunSurroundings& surroundings)
      : request_(request),
        surroundings_(surroundings),
        name_("rank " + std::to_string(request.launched->rank)),
        secrets_(request.recipe.resolved),
        output_([this](const std::string& line) { keep(LogLevel::kInfo, "", line); }) {}

  ExitCode operator()() {
    WorkerCommand command = surroundings_.worker;
    command.variables.push_back("RETORT_RANK=" + std::to_string(request_.launched->rank));
    Json request = run_request(request_);
    request["rank"] = request_.launched->rank;
    request["meeting"] = to_json(request_.launched->meeting);
    const Diagnostics errors = supervision_.start(command, std::move(request), conversation(),
                                                  [this](const Ending& end) { ending_ = end; });
    if (!errors.empty()) return fail(errors);
    try {
      supervision_.run();
      output_.take_rest();
    } catch (const WriteError& error) {  // writing the log failed
      return fail({error.diagnostic()});
    }
    return conclude();
  }

 private:
  using Clock = std::chrono::steady_clock;

  Conversation conversation() {
    Conversation conversation;
    conversation.obeys_signals = false;
    conversation.on_stop = [this](int number) { stop(number); };
    conversation.tick = [this] { return tick(); };
    conversation.on_output = [this](std::string_view text) { output_.take(text); };
    conversation.on_event = [this](const Event& event, WorkerProcess& worker) {
      see(event, worker);
    };
    return conversation;
  }

  void see(const Event& event, WorkerProcess& worker) {
    if (const auto* reported = std::get_if<Reported>(&event)) report(reported->diagnostic);
    else if (const auto* said = std::get_if<Said>(&event))
      keep(LogLevel::kInfo, said->node, said->line);
    else if (const auto* logged = std::get_if<Logged>(&event))
      keep(logged->level, logged->node, logged->line);
    else if (const auto* joined = std::get_if<Joined>(&event)) open_log(joined->folder);
    else if (std::holds_alternative<Flush>(event)) worker.send(Json{{"flushed", true}}.dump());
    else if (std::holds_alternative<Ready>(event))
      worker.send(Json{{"go", {{"folder", ""}}}}.dump());
  }

  void report(const Diagnostic& diagnostic) {
    const bool is_error = diagnostic.severity == Severity::kError;
    keep(is_error ? LogLevel::kError : LogLevel::kWarn, "", diagnostic.message);
    if (is_error) errors_.push_back(diagnostic);
  }

  void open_log(const std::filesystem::path& folder) {
    std::filesystem::create_directories(folder);
    log_.emplace(continued_log(RunLayout(folder).log(), surroundings_.storage,
                               {.level = surroundings_.worker.log}));
  }

  void keep(LogLevel level, std::string_view node, std::string_view text) {
    if (!log_) return;
    const std::chrono::duration<double> since = Clock::now() - began_;
    log_->write({.level = level,
                 .node = node,
                 .text = secrets_.hidden_in(std::string(text)),
                 .seconds = since.count()});
  }

  void stop(int number) {
    if (stop_signal_ && number == SIGINT) return supervision_.kill_others();
    if (stop_signal_) return;
    stop_signal_ = number;
    if (!log_) return supervision_.kill_others();  // the run has not begun
    if (const auto grace = surroundings_.worker.grace; grace.count() > 0)
      deadline_ = Clock::now() + grace;
  }

  std::optional<std::chrono::milliseconds> tick() {
    if (!deadline_) return {};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline_ - Clock::now());
    if (left.count() > 0) return left;
    deadline_.reset();
    supervision_.kill_others();
    return {};
  }

  ExitCode conclude() {
    // Only rank 0 knows whether something was saved; a launcher reports the worst exit code.
    if (stop_signal_) return ExitCode::kStoppedAfterSave;
    Diagnostics all = errors_;
    all.insert(all.end(), ending_.errors.begin(), ending_.errors.end());
    if (all.empty()) return ending_.exit;
    return fail(all);
  }

  ExitCode fail(const Diagnostics& errors) {
    for (Diagnostic error : errors) {
      error = secrets_.hidden_in(std::move(error));
      if (!error.message.starts_with(name_)) error.message = name_ + ": " + error.message;
      print(surroundings_.err, error, surroundings_.display.color);
    }
    return exit_code(errors);
  }

  const RunRequest& request_;
  const RunSurroundings& surroundings_;
  const std::string name_;
  const SecretTexts secrets_;
  const Clock::time_point began_ = Clock::now();
  WorkerOutput output_;
  Supervision supervision_;
  std::optional<Log> log_;  // nullopt: its folder is not known yet
  Diagnostics errors_;
  Ending ending_;
  std::optional<int> stop_signal_;
  std::optional<Clock::time_point> deadline_;  // deadline for the worker after a signal
};

}  // namespace

ExitCode run_other_rank(const RunRequest& request, const RunSurroundings& surroundings) {
  return OtherRank(request, surroundings)();
}

}  // namespace runner
