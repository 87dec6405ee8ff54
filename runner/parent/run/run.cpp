#include "runner/parent/run/run.h"

#include <algorithm>
#include <ostream>

#include <nlohmann/json.hpp>

#include "runner/parent/record/run_summary.h"
#include "runner/parent/run/hooks.h"
#include "runner/parent/run/live_record.h"
#include "runner/parent/run/meeting_file.h"
#include "runner/parent/run/mlflow_request.h"
#include "runner/parent/run/other_rank.h"
#include "runner/parent/run/restart.h"
#include "runner/parent/run/run_request.h"
#include "runner/parent/run/supervise_ranks.h"
#include "runner/parent/run/tracking.h"
#include "runner/parent/run/worker_output.h"
#include "runner/parent/run/worker_process.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/text/date.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

const Value kNoRecipe;  // the recipe of a run without hooks

/// One run, from the worker's hello to the summary.
class Run {
 public:
  Run(const RunRequest& request, const RunSurroundings& surroundings)
      : request_(request),
        surroundings_(surroundings),
        display_(surroundings.err, surroundings.display, SecretTexts(request.recipe.resolved)),
        summary_(request.graph, local_time(surroundings.wall_clock(), "%Y-%m-%dT%H:%M:%S%z"),
                 request.smoke),
        record_(request, surroundings, summary_),
        worker_(surroundings.worker),
        restarts_(request.graph, other_gpu(), request.device ? request.device->text() : ""),
        output_([this](const std::string& line) {
          display_.detail(line);
          record_.log(LogLevel::kInfo, "", line);
        }),
        hooks_(is_evaluation() ? kNoRecipe : request.recipe.resolved, surroundings.display.clock,
               [this](const Diagnostic& warning) { report(placed(warning)); }),
        tracking_([this](const Diagnostic& warning) { report(placed(warning)); }) {}

  ExitCode operator()() {
    try {
      supervise_worker();
    } catch (const CannotOpenRecord& error) {
      fail(error.errors);
    } catch (const WriteError& error) {
      fail({error.diagnostic()});
    }
    return conclude();
  }

 private:
  void supervise_worker() {
    Diagnostics lost;
    for (const Node& node : request_.graph.nodes) {
      const Diagnostics of_node = lost_secrets(node.options, node.pointer);
      lost.insert(lost.end(), of_node.begin(), of_node.end());
    }
    if (!lost.empty()) return fail(lost);
    if (request_.recipe.has_mlflow) {
      auto target = mlflow_target(surroundings_.environment, surroundings_.executable);
      if (!target) return fail(target.errors());
      mlflow_ = *std::move(target);
    }
    // Receives signals while no worker is running; they are handled by the next wait.
    const SignalSource between_workers;
    for (std::optional<Restart> restart;;) {
      if (ranks() > 1) meeting_.emplace();
      const auto ending =
          supervise_ranks(worker_, worker_request(restart), conversation(), other_ranks());
      meeting_.reset();
      if (!ending) return fail(ending.errors());
      output_.take_rest();
      // With a launcher, the other ranks exit along with this one, so the run cannot be restarted
      // here.
      std::optional<Restart> next =
          record_.is_open() && !request_.launched ? restarts_.after(*ending) : std::nullopt;
      if (const auto stopped = restarts_.stopped()) return judge(stopped_between_workers(*stopped));
      if (!next) return judge(*ending);
      go_on(*next);
      restart = std::move(next);
    }
  }

  Ending stopped_between_workers(ExitCode exit) const {
    return {.exit = has_saved_ ? ExitCode::kStoppedAfterSave : exit, .errors = {}};
  }

  /// Returns a function that releases the run's GPU and takes another; empty if there is no way to
  /// take another. A run of several ranks keeps its GPUs.
  TakeOtherGpu other_gpu() {
    if (!surroundings_.next_gpu || request_.graph.ranks > 1) return {};
    return [this]() -> Result<OwnDevice> {
      OwnDevice* const own = own_device();
      if (!own || !own->taken.device)
        return Diagnostic{ErrorCode::kDeviceUnavailable,
                          {},
                          "",
                          "it is not known which GPU the run is using",
                          ""};
      left_.push_back(own->taken.device->uuid);
      own->taken.lock.reset();
      return surroundings_.next_gpu(left_);
    };
  }

  OwnDevice* own_device() { return moved_to_ ? &*moved_to_ : request_.device; }

  Conversation conversation() {
    Conversation conversation;
    conversation.on_hello = [&](const Hello& hello) { versions_ = hello.versions; };
    conversation.on_event = [&](const Event& event, WorkerProcess& process) {
      see(event, process);
    };
    conversation.on_output = [&](std::string_view text) { output_.take(text); };
    conversation.on_resize = [&] { display_.resize(); };
    conversation.tick = [&] {
      return sooner(sooner(display_.tick(), hooks_.tick()), tracking_.tick());
    };
    return conversation;
  }

  /// Returns the number of ranks for which this process starts workers. An evaluation does not
  /// train, so it has one.
  int ranks() const { return is_evaluation() || request_.launched ? 1 : request_.graph.ranks; }

  OtherRanks other_ranks() {
    return {.count = ranks(),
            .hand_over =
                [this](int rank, WorkerCommand& command) {
                  const OwnDevice* const own = own_device();
                  const auto other = static_cast<std::size_t>(rank - 1);
                  if (own && other < own->of_other_ranks.size())
                    runner::hand_over(own->of_other_ranks[other], command);
                },
            .go = [this] { return go_message(); },
            .on_line =
                [this](int rank, std::string_view line) {
                  const std::string text =
                      "rank " + std::to_string(rank) + ": " + std::string(line);
                  display_.detail(text);
                  record_.log(LogLevel::kInfo, "", text);
                }};
  }

  Json go_message() const { return Json{{"go", {{"folder", record_.path().string()}}}}; }

  Json worker_request(const std::optional<Restart>& restart) const {
    Json request = run_request(request_);
    request["index"] = surroundings_.node_index.string();
    if (request_.launched) {
      request["rank"] = request_.launched->rank;
      request["meeting"] = to_json(request_.launched->meeting);
    } else if (meeting_) {
      request["meeting"] = to_json(Meeting{.file = meeting_->path(), .ranks_here = ranks()});
    }
    if (restart) request["folder"] = record_.path().string();
    if (!restart) return request;
    request["resume"] = true;
    if (moved_to_) request["graph"]["device"] = moved_to_->taken.select;
    const Restarts& told = restart->restarts;
    request["restarts"] = {
        {"plans", told.plans}, {"retries", told.retries}, {"has_moved", told.has_moved}};
    return request;
  }

  /// Prepares the run to continue with another worker.
  void go_on(Restart& restart) {
    if (restart.device) move(*std::move(restart.device));
    display_.node_finished();
    show(Said{restart.node, restart.line});
    record_.see(Said{restart.node, restart.line});
    record_.see(Recovered{restart.node, restart.recovery});
    record_.sync_metrics();
    record_.restart();
  }

  void move(OwnDevice device) {
    if (device.record.is_null()) {
      const auto asked =
          request_.device ? request_.device->record.value("asked", "") : request_.graph.device;
      device.record = device_record({.select = asked}, device.taken);
    }
    if (OwnDevice* const before = own_device()) before->taken.lock.reset();
    moved_to_ = std::move(device);
    hand_over(moved_to_->taken, worker_);
    record_.move(moved_to_->record, worker_.variables);
  }

  void judge(const Ending& ending) {
    fail(ending.errors);
    const Diagnostics unsaid = restarts_.errors_of(ending);
    fail(unsaid);
    summary_.signal = ending.killed_by;
    const bool has_died = std::ranges::any_of(ending.errors, [](const Diagnostic& error) {
      return error.code == ErrorCode::kWorkerDied;
    });
    if (has_died) show_last_words();
    exit_ = ending.exit;
    if (ending.was_deaf) report_unheeded_stop();
    if (!unsaid.empty()) exit_ = exit_code(unsaid);
    if (exit_ == ExitCode::kDone) exit_ = exit_code(summary_.diagnostics());
    summary_.status = has_died                    ? RunStatus::kWorkerDied
                      : says_stopped(ending.exit) ? RunStatus::kInterrupted
                      : exit_ == ExitCode::kDone  ? RunStatus::kFinished
                                                  : RunStatus::kFailed;
    if (summary_.status == RunStatus::kFinished) look_at_inputs_again();
  }

  /// Handles a worker that was killed because it did not stop. Its saves are valid even though it
  /// did not report them.
  void report_unheeded_stop() {
    if (has_saved_) exit_ = ExitCode::kStoppedAfterSave;
    const auto seconds = std::chrono::ceil<std::chrono::seconds>(worker_.grace).count();
    const std::string line =
        "the worker did not stop within " + std::to_string(seconds) + " s, and was killed";
    display_.say("", line);
    record_.log(LogLevel::kWarn, "", line);
  }

  void look_at_inputs_again() {
    Diagnostics errors;
    for (Diagnostic& found : record_.look_at_inputs_again()) {
      if (found.severity == Severity::kError) errors.push_back(std::move(found));
      else report(placed(std::move(found)));
    }
    fail(errors);
  }

  void fail(const Diagnostics& errors) {
    for (const Diagnostic& error : errors) summary_.add(placed(error));
    if (!errors.empty()) {
      summary_.status = RunStatus::kFailed;
      exit_ = exit_code(errors);
    }
  }

  /// Passes an event to the record and the display, and responds to the worker if it is waiting for
  /// an answer.
  void see(const Event& event, WorkerProcess& worker) {
    if (const auto* reported = std::get_if<Reported>(&event))
      return report(placed(reported->diagnostic));
    if (const auto* flush = std::get_if<Flush>(&event)) return put_on_disk(*flush, worker);
    restarts_.see(event);
    record_.see(event);
    hooks_.see(event, record_.path());
    if (const auto* ready = std::get_if<Ready>(&event)) {
      record_.open(*ready, versions_,
                   [this](const Diagnostic& warning) { report(placed(warning)); });
      track();
      worker.send(go_message().dump());
    }
    show(event);
  }

  /// Starts sending the run to an MLflow server, if requested by the recipe.
  void track() {
    if (!mlflow_) return;
    MlflowSubject subject{.folder = record_.path(),
                          .recipe = to_json(request_.recipe.resolved),
                          .nodes = {},
                          .began = now() - record_.seconds()};
    for (const Node& node : request_.graph.nodes) subject.nodes.emplace_back(node.id, node.kind);
    Json line = mlflow_request(*mlflow_, subject);
    SecretTexts(request_.recipe.resolved).hide_in(line);
    tracking_.begin(*mlflow_, line);
  }

  void end_tracking() {
    if (!mlflow_) return;
    const std::string status = summary_.status == RunStatus::kFinished      ? "FINISHED"
                               : summary_.status == RunStatus::kInterrupted ? "KILLED"
                                                                            : "FAILED";
    tracking_.end(mlflow_end(status, now()), std::chrono::seconds(MlflowPatience().limit_seconds));
  }

  double now() const {
    return std::chrono::duration<double>(surroundings_.wall_clock().time_since_epoch()).count();
  }

  void put_on_disk(const Flush& flush, WorkerProcess& worker) {
    restarts_.see(flush);
    if (surroundings_.before_flush) surroundings_.before_flush();
    record_.sync_metrics();
    has_saved_ = has_saved_ || !flush.node.empty();
    worker.send(Json{{"flushed", true}}.dump());
  }

  void show(const Event& event) {
    if (const auto* reused = std::get_if<Reused>(&event)) {
      display_.say(reused->node, "reused from " + LiveRecord::shown_folder(reused->run));
    } else if (const auto* progress = std::get_if<NodeProgress>(&event)) {
      display_.progress(progress->node, progress->progress);
    } else if (const auto* said = std::get_if<Said>(&event)) {
      display_.say(said->node, said->line);
    } else if (const auto* logged = std::get_if<Logged>(&event)) {
      display_.detail((logged->node.empty() ? "" : logged->node + ": ") + logged->line);
    } else if (std::holds_alternative<NodeFinished>(event)) {
      display_.node_finished();
    }
  }

  void report(const Diagnostic& diagnostic) {
    summary_.add(diagnostic);
    const bool is_error = diagnostic.severity == Severity::kError;
    record_.log(is_error ? LogLevel::kError : LogLevel::kWarn, "",
                std::string(is_error ? "error[" : "warning[") + name(diagnostic.code) +
                    "]: " + diagnostic.message);
    // Warnings are shown immediately; errors are shown together once all are known.
    if (!is_error && surroundings_.display.verbosity != Verbosity::kQuiet) {
      display_.clear();
      print(surroundings_.err, diagnostic, surroundings_.display.color);
    }
  }

  /// Returns `diagnostic` without secrets and with the location in the recipe to which its pointer
  /// refers.
  Diagnostic placed(Diagnostic diagnostic) const {
    diagnostic = record_.without_secrets(std::move(diagnostic));
    if (!diagnostic.where.source && !diagnostic.pointer.empty()) {
      diagnostic.where = nearest(request_.recipe.resolved, diagnostic.pointer).where;
    }
    return diagnostic;
  }

  void show_last_words() {
    for (const std::string& line : output_.last_lines()) {
      summary_.diagnostics().back().notes.push_back(
          {{}, "it printed: " + record_.without_secrets(line)});
    }
  }

  ExitCode conclude() {
    display_.node_finished();
    summary_.exit = exit_;
    summary_.seconds = record_.seconds();
    sort_by_place(summary_.diagnostics(), request_.sources);
    if (record_.is_open()) {
      close_record();
      end_tracking();
      run_last_hooks();
    }
    if (const std::string recovered = summary_.recovered_text(); !recovered.empty())
      display_.say("", recovered);
    if (exit_ == ExitCode::kDone) {
      for (const std::string& remark : request_.graph.remarks)
        display_.say("", "remark: " + remark);
    }
    for (const Diagnostic& diagnostic : summary_.diagnostics()) {
      if (diagnostic.severity == Severity::kWarning) continue;  // already shown
      print(surroundings_.err, diagnostic, surroundings_.display.color);
    }
    if (summary_.status == RunStatus::kInterrupted)
      display_.say("", "interrupted" + way_to_go_on());
    else if (exit_ != ExitCode::kDone && has_saved_)
      display_.say("", "finished work is saved" + way_to_go_on());
    else if (exit_ != ExitCode::kDone && record_.is_open())
      display_.say("", "the record is in " + record_.folder());
    if (surroundings_.on_end) {
      Json json = summary_.to_json();
      json["folder"] = record_.is_open() ? Json(record_.folder()) : Json(nullptr);
      surroundings_.on_end(json, summary_.diagnostics());
    } else if (record_.is_open() &&
               (exit_ == ExitCode::kDone || exit_ == ExitCode::kStoppedAfterSave)) {
      surroundings_.results << record_.folder() << '\n';
    }
    surroundings_.results.flush();
    return *summary_.exit;
  }

  /// Runs the hooks for the end of a run, once the record is complete.
  void run_last_hooks() {
    if (summary_.status == RunStatus::kInterrupted) return;
    const bool is_finished = summary_.status == RunStatus::kFinished;
    hooks_.finish(is_finished ? "after_run" : "on_failure", record_.path(), summary_.to_json());
  }

  void close_record() {
    try {
      record_.close();
    } catch (const WriteError& error) {
      // Other runs have already reported the full disk; one that otherwise succeeded must report it
      // here.
      if (exit_ == ExitCode::kDone) {
        fail({error.diagnostic()});
        summary_.exit = exit_;
      }
    }
  }

  /// Returns a hint with the command for continuing the run; empty if nothing was saved.
  std::string way_to_go_on() const {
    const bool can_go_on = is_resumed() || (has_saved_ && record_.is_open());
    return can_go_on ? ": continue with `retort resume " + record_.folder() + "`" : "";
  }

  bool is_resumed() const { return !request_.resume.empty(); }
  bool is_evaluation() const { return !request_.trained.empty(); }

  const RunRequest& request_;
  const RunSurroundings& surroundings_;
  ProgressDisplay display_;
  RunSummary summary_;
  LiveRecord record_;
  WorkerCommand worker_;                // set up for the device that the run is on
  std::optional<OwnDevice> moved_to_;   // nullopt: still on its first device
  std::vector<std::string> left_ = {};  // UUIDs of the GPUs used before
  RestartRule restarts_;
  WorkerOutput output_;
  Hooks hooks_;
  std::optional<MlflowTarget> mlflow_;  // nullopt: run.mlflow is false
  Tracking tracking_;
  ExitCode exit_ = ExitCode::kDone;
  Json versions_;  // versions of the worker's libraries
  bool has_saved_ = false;
  std::optional<MeetingFile> meeting_;  // while several ranks run
};

}  // namespace

ExitCode run(const RunRequest& request, const RunSurroundings& surroundings) {
  if (request.launched && request.launched->rank > 0) return run_other_rank(request, surroundings);
  return Run(request, surroundings)();
}

}  // namespace runner
