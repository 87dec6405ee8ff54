#include "runner/run/run.h"

#include <algorithm>
#include <ctime>
#include <deque>
#include <map>
#include <ostream>
#include <set>

#include <nlohmann/json.hpp>

#include "runner/stage/family.h"
#include "runner/stage/run_layout.h"
#include "runner/text/bytes.h"
#include "runner/text/duration.h"
#include "runner/record/environment_record.h"
#include "runner/record/run_lock.h"
#include "runner/record/run_summary.h"
#include "runner/run/supervise.h"
#include "runner/record/training_history.h"
#include "runner/config/interpolation.h"
#include "runner/config/yaml_writer.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxKeptOutput = 1 << 20;  // bytes of what the worker prints before there is a folder
constexpr std::size_t kMaxOutputLine = 64 << 10;
constexpr std::size_t kLastWords = 5;  // lines shown when a worker dies

std::string date_and_time(std::chrono::system_clock::time_point now) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  std::tm parts{};
  localtime_r(&seconds, &parts);
  char text[40];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S%z", &parts)};
}

/// A folder could not be made: the run ends before it began.
struct NoFolder {
  Diagnostics errors;
};

/// One run from the worker's hello to the summary.
class Run {
 public:
  Run(const RunRequest& request, const RunSurroundings& surroundings)
      : request_(request),
        surroundings_(surroundings),
        display_(surroundings.talk, surroundings.display),
        start_(surroundings.display.clock()),
        summary_(request.graph, date_and_time(surroundings.wall_clock()), request.smoke) {}

  ExitCode operator()() {
    try {
      supervise_worker();
    } catch (const NoFolder& error) {
      fail(error.errors);
    } catch (const WriteError& error) {
      fail({error.diagnostic()});
    }
    return conclude();
  }

 private:
  void supervise_worker() {
    Conversation conversation;
    conversation.on_hello = [&](const Hello& hello) { versions_ = hello.versions; };
    conversation.on_event = [&](const Event& event, WorkerProcess& process) { see(event, process); };
    conversation.on_output = [&](std::string_view text) { take_output(text); };
    conversation.on_resize = [&] { display_.resize(); };
    conversation.tick = [&] { return display_.tick(); };
    const Json request = {{"protocol", kProtocolVersion},     {"request", "run"},
                          {"graph", to_json(request_.graph)}, {"smoke", request_.smoke},
                          {"resume", is_resumed()},           {"checkpoints", to_json(request_.trained)},
                          {"reuse", name(request_.reuse)},    {"index", surroundings_.node_index.string()}};
    const auto ending = supervise(surroundings_.worker, request, std::move(conversation));
    if (!ending) return fail(ending.errors());
    flush_output();
    judge(*ending);
  }

  void judge(const Ending& ending) {
    fail(ending.errors);
    summary_.signal = ending.killed_by;
    const bool has_died = std::ranges::any_of(
        ending.errors, [](const Diagnostic& error) { return error.code == ErrorCode::kWorkerDied; });
    if (has_died) show_last_words();
    exit_ = ending.exit;
    if (exit_ == ExitCode::kDone) exit_ = exit_code(summary_.diagnostics());
    summary_.status = has_died                   ? RunStatus::kWorkerDied
                      : ending.interrupted       ? RunStatus::kInterrupted
                      : exit_ == ExitCode::kDone ? RunStatus::kFinished
                                                 : RunStatus::kFailed;
  }

  void fail(const Diagnostics& errors) {
    for (const Diagnostic& error : errors) summary_.add(placed(error));
    if (!errors.empty()) {
      summary_.status = RunStatus::kFailed;
      exit_ = exit_code(errors);
    }
  }

  void see(const Event& event, WorkerProcess& worker) {
    if (const auto* reported = std::get_if<Reported>(&event)) return report(placed(reported->diagnostic));
    // The metrics of one epoch come together.
    if (!std::holds_alternative<NodeMetric>(event)) write_histories();
    if (const auto* flush = std::get_if<Flush>(&event)) return put_on_disk(*flush, worker);
    take_back_metrics(event);
    summary_.see(event);
    if (const auto* ready = std::get_if<Ready>(&event)) {
      open_folder(*ready);
      worker.send(Json{{"go", {{"folder", folder_->path().string()}}}}.dump());
    } else if (const auto* started = std::get_if<NodeStarted>(&event)) {
      log(started->node + ": started");
      if (is_training(started->node)) histories_.insert_or_assign(started->node, TrainingHistory(seconds()));
    } else if (const auto* reused = std::get_if<Reused>(&event)) {
      const std::string line = "reused from " + shown(reused->run);
      display_.say(reused->node, line);
      log(reused->node + ": " + line);
    } else if (const auto* finished = std::get_if<NodeFinished>(&event)) {
      display_.node_finished();
      log(finished->node + ": finished in " + duration_text(finished->seconds) + ", tensors took at most " +
          bytes_text(finished->peak_memory_bytes));
    } else if (const auto* progress = std::get_if<NodeProgress>(&event)) {
      display_.progress(progress->node, progress->progress);
    } else if (const auto* said = std::get_if<Said>(&event)) {
      display_.say(said->node, said->line);
      log(said->node + ": " + said->line);
    } else if (const auto* metric = std::get_if<NodeMetric>(&event); metric && folder_) {
      const double now = seconds();
      folder_->metrics().append(*metric, now);
      see_metric(*metric, now);
    }
  }

  bool is_training(const std::string& node) const {
    const auto found = std::ranges::find(request_.graph.nodes, node, &Node::id);
    return found != request_.graph.nodes.end() && family_of(found->kind) == Family::kTrain;
  }

  void see_metric(const NodeMetric& metric, double time) {
    const auto history = histories_.find(metric.node);
    if (history != histories_.end() && history->second.see(metric, time)) unwritten_.insert(metric.node);
  }

  /// Writes what is new of trainings.
  void write_histories() {
    for (const std::string& node : unwritten_) {
      folder_->record_history(node, histories_.at(node).to_json());
    }
    unwritten_.clear();
  }

  /// The history of `node` continues after the metrics `kept` of the time before the run was resumed.
  void take_up_history(const std::string& node, const std::vector<MetricLine>& kept) {
    if (!is_training(node)) return;
    const double began = kept.empty() ? seconds() : folder_->beginning_of(node, kept);
    histories_.insert_or_assign(node, TrainingHistory(began));
    for (const auto& [metric, time] : kept) see_metric(metric, time);
  }

  void put_on_disk(const Flush& flush, WorkerProcess& worker) {
    if (folder_) folder_->metrics().flush();
    has_saved_ = has_saved_ || !flush.node.empty();
    worker.send(Json{{"flushed", true}}.dump());
  }

  /// A node that runs again measures again: its metrics are dropped from the record, except those that it
  /// continues after.
  void take_back_metrics(const Event& event) {
    if (!is_resumed() || !folder_) return;
    const auto take_back = [&](const std::string& node, std::int64_t count) {
      running_anew_.reset();
      summary_.forget_metrics(node);
      const std::vector<MetricLine> kept = folder_->metrics().rewind(node, count);
      for (const MetricLine& line : kept) summary_.see(line.metric);
      if (count > 0) take_up_history(node, kept);
    };
    if (const auto* started = std::get_if<NodeStarted>(&event)) running_anew_ = started->node;
    if (const auto* resumed = std::get_if<Resumed>(&event)) take_back(resumed->node, resumed->metrics);
    const auto* metric = std::get_if<NodeMetric>(&event);
    const auto* finished = std::get_if<NodeFinished>(&event);
    const bool has_begun = (metric && running_anew_ == metric->node) || (finished && running_anew_ == finished->node);
    if (has_begun) take_back(std::string(*running_anew_), 0);
  }

  bool is_resumed() const { return !request_.resume.empty(); }

  std::filesystem::path folder_to_write() const {
    if (is_resumed()) return std::filesystem::absolute(request_.resume).lexically_normal();
    auto base = surroundings_.working_folder;
    if (base.empty()) base = std::filesystem::current_path();
    const auto path =
        create_run_folder(request_.recipe.run_dir, base, surroundings_.wall_clock(), surroundings_.storage);
    if (!path) throw NoFolder{path.errors()};
    return *path;
  }

  void open_folder(const Ready& ready) {
    if (folder_) throw NoFolder{{{ErrorCode::kProtocol, {}, "", "the worker was ready twice", "please report it"}}};
    const std::filesystem::path path = folder_to_write();
    auto lock = RunLock::take(path);
    if (!lock) throw NoFolder{lock.errors()};
    lock_.emplace(*std::move(lock));
    if (is_resumed()) {
      folder_.emplace(RunFolder::reopen(path, surroundings_.storage));
      seconds_before_ = folder_->metrics().last_time();
      for (const MetricLine& line : folder_->metrics().read()) summary_.see(line.metric);
      log("resumed");
    } else {
      folder_.emplace(path, surroundings_.storage);
      folder_->record(RunRecord::kConfig, write_yaml(request_.composition.unresolved));
    }
    folder_->record(RunRecord::kOverrides, overrides_yaml(request_.overrides));
    folder_->record(RunRecord::kRecipe, write_yaml(as_unresolved(request_.recipe.resolved)));
    folder_->record_json(RunRecord::kGraph, graph_record(ready));
    if (!request_.trained.empty()) {
      folder_->record_json(RunRecord::kSource,
                           {{"schema", 1},
                            {"run", std::filesystem::absolute(request_.source).lexically_normal().string()},
                            {"checkpoints", to_json(request_.trained)}});
    }
    Json environment = environment_record(versions_, environ);
    environment["device"] = ready.device;
    environment["threads"] = ready.threads;
    environment["determinism"] = name(request_.graph.determinism);
    environment["variables"].update(ready.variables);
    folder_->record_json(RunRecord::kEnvironment, environment);
    folder_->summary(summary_.to_json());
    for (const std::string& line : kept_lines_) log(line);
    kept_lines_.clear();
  }

  /// The graph as it is recorded, with what `auto` came to: to_json(Graph) is for the worker and holds secrets.
  Json graph_record(const Ready& ready) const {
    Json json = to_json(request_.graph);
    json["threads"] = ready.threads;
    json["device"] = ready.device;
    for (std::size_t i = 0; i < request_.graph.nodes.size(); ++i) {
      json["nodes"][i]["options"] = to_json(request_.graph.nodes[i].options, /*hide_secrets=*/true);
    }
    return json;
  }

  void report(const Diagnostic& diagnostic) {
    summary_.add(diagnostic);
    log(std::string(diagnostic.severity == Severity::kError ? "error[" : "warning[") + name(diagnostic.code) +
        "]: " + diagnostic.message);
    // A warning is news while it happens; errors are shown together when all are known.
    if (diagnostic.severity == Severity::kWarning && surroundings_.display.verbosity != Verbosity::kQuiet) {
      display_.clear();
      print(surroundings_.talk, diagnostic, surroundings_.display.color);
    }
  }

  /// `diagnostic` with the place in the recipe that its pointer names.
  Diagnostic placed(Diagnostic diagnostic) const {
    if (!diagnostic.where.source && !diagnostic.pointer.empty()) {
      diagnostic.where = nearest(request_.recipe.resolved, diagnostic.pointer).where;
    }
    return diagnostic;
  }

  void take_output(std::string_view text) {
    output_ += text;
    for (std::size_t end; (end = output_.find_first_of("\r\n")) != output_.npos;) {
      output_line(output_.substr(0, end));
      output_.erase(0, end + 1);
    }
    if (output_.size() > kMaxOutputLine) flush_output();
  }

  void flush_output() {
    if (!output_.empty()) output_line(output_);
    output_.clear();
  }

  void output_line(const std::string& line) {
    if (line.empty()) return;
    last_words_.push_back(line);
    if (last_words_.size() > kLastWords) last_words_.pop_front();
    display_.detail(line);
    log(line);
  }

  void log(const std::string& line) {
    if (folder_) return folder_->log(seconds(), line);
    kept_bytes_ += line.size();
    if (kept_bytes_ <= kMaxKeptOutput) kept_lines_.push_back(line);
  }

  void show_last_words() {
    for (const std::string& line : last_words_) {
      summary_.diagnostics().back().notes.push_back({{}, "it printed: " + line});
    }
  }

  /// Since the start; of a resumed run, all the times that it was at work together.
  double seconds() const {
    return seconds_before_ + std::chrono::duration<double>(surroundings_.display.clock() - start_).count();
  }

  ExitCode conclude() {
    display_.node_finished();
    summary_.exit = exit_;
    summary_.seconds = seconds();
    sort_by_place(summary_.diagnostics(), request_.sources);
    if (folder_) close_record();
    for (const Diagnostic& diagnostic : summary_.diagnostics()) {
      if (diagnostic.severity == Severity::kWarning) continue;  // has been shown
      print(surroundings_.talk, diagnostic, surroundings_.display.color);
    }
    if (summary_.status == RunStatus::kInterrupted) display_.say("", "interrupted" + way_to_go_on());
    else if (exit_ != ExitCode::kDone && has_saved_) display_.say("", "what was done is kept" + way_to_go_on());
    if (surroundings_.json) {
      Json json = summary_.to_json();
      json["folder"] = folder_ ? Json(shown_folder()) : Json(nullptr);
      surroundings_.results << json.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
    } else if (folder_) {
      surroundings_.results << shown_folder() << '\n';
    }
    surroundings_.results.flush();
    return *summary_.exit;
  }

  void close_record() {
    try {
      write_histories();
      folder_->log(seconds(), std::string(name(summary_.status)));
      folder_->summary(summary_.to_json());
    } catch (const WriteError& error) {
      // A disk that is full has been reported once; it is news only to a run that went well.
      if (exit_ == ExitCode::kDone) {
        fail({error.diagnostic()});
        summary_.exit = exit_;
      }
    }
  }

  /// What to type to continue, where something was saved.
  std::string way_to_go_on() const {
    return has_saved_ || is_resumed() ? ": continue with `retort resume " + shown_folder() + "`" : "";
  }

  std::string shown_folder() const { return shown(folder_->path()); }

  /// Relative to the working directory, when it lies below that.
  static std::string shown(const std::filesystem::path& folder) {
    const auto relative = folder.lexically_relative(std::filesystem::current_path());
    const bool is_below = !relative.empty() && *relative.begin() != "..";
    return (is_below ? relative : folder).string();
  }

  const RunRequest& request_;
  const RunSurroundings& surroundings_;
  ProgressDisplay display_;
  const std::chrono::steady_clock::time_point start_;
  RunSummary summary_;
  ExitCode exit_ = ExitCode::kDone;
  Json versions_;
  std::optional<RunLock> lock_;
  std::optional<RunFolder> folder_;
  double seconds_before_ = 0;
  bool has_saved_ = false;
  std::map<std::string, TrainingHistory> histories_;  // by node
  std::set<std::string> unwritten_;                   // nodes whose history has grown since it was written
  std::optional<std::string> running_anew_;           // a resumed run's node that has measured nothing yet
  std::string output_;                                // of the worker, not yet a line
  std::vector<std::string> kept_lines_;
  std::size_t kept_bytes_ = 0;
  std::deque<std::string> last_words_;
};

}  // namespace

ExitCode run(const RunRequest& request, const RunSurroundings& surroundings) { return Run(request, surroundings)(); }

}  // namespace runner
