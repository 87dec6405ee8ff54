#include "runner/parent/run/live_record.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "runner/parent/config/interpolation.h"
#include "runner/parent/config/provenance.h"
#include "runner/parent/config/yaml_writer.h"
#include "runner/parent/record/checkpoint_origin.h"
#include "runner/parent/record/environment_record.h"
#include "runner/parent/record/python_record.h"
#include "runner/shared/disk/digest.h"
#include "runner/shared/disk/file_digests.h"
#include "runner/shared/record/recorded_run.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/text/units.h"
#include "runner/shared/value/parse_json.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxKeptLog = 1 << 20;  // bytes of log to keep until there is a folder

std::string yaml_list(const std::vector<std::string>& texts) {
  Value::List list;
  for (const std::string& text : texts) list.push_back({text, {}});
  return write_yaml({std::move(list), {}});
}

/// Returns the inputs of the request, including the files of its Python code.
std::vector<InputPath> inputs_of(const RunRequest& request) {
  std::vector<InputPath> inputs = request.inputs;
  for (const PythonFile& file : request.graph.python.entries)
    inputs.push_back({file.pointer, file.path});
  return inputs;
}

}  // namespace

LiveRecord::LiveRecord(const RunRequest& request, const RunSurroundings& surroundings,
                       RunSummary& summary)
    : request_(request),
      surroundings_(surroundings),
      summary_(summary),
      secrets_(request.recipe.resolved),
      start_(surroundings.display.clock()),
      variables_(surroundings.worker.variables),
      inputs_(inputs_of(request)) {
  if (request.device) device_choice_ = request.device->record;
}

void LiveRecord::open(const Ready& ready, const Json& versions,
                      const std::function<void(const Diagnostic&)>& report) {
  if (folder_ && !std::exchange(is_ready_again_allowed_, false))
    throw CannotOpenRecord{{{ErrorCode::kProtocol,
                             {},
                             "",
                             "the worker reported twice that it was ready",
                             "this is a bug in Retort"}}};
  if (folder_) check_restart();
  else inputs_.look();
  environment_ = environment_of(ready, versions);
  if (folder_) return describe(ready);
  if (!is_resumed()) check(environment_, report);
  const std::filesystem::path path = folder_to_write();
  const auto on_wait = [&](const std::string& line) {
    report({.code = ErrorCode::kRunBusy, .message = line, .severity = Severity::kWarning});
  };
  auto lock = RunLock::take(path, {.on_wait = on_wait});
  if (!lock) throw CannotOpenRecord{lock.errors()};
  lock_.emplace(*std::move(lock));
  if (is_resumed()) {
    check(environment_, report);
    accepted_ = accepted_checkpoints(path, request_.graph);
    copy_marks();
    WorkedTime before = worked_time(path);
    folder_.emplace(
        RunFolder::reopen(path, surroundings_.storage, {.level = surroundings_.worker.log}));
    seconds_before_ = before.seconds;
    take_up_metrics(std::move(before));
    for (const Recovered& one : recorded_recoveries(RunLayout(path).summary())) summary_.see(one);
    summary_.earlier = recorded_attempts(RunLayout(path).summary());
    log(LogLevel::kInfo, "", "resumed");
  } else {
    folder_.emplace(path, surroundings_.storage, LogOptions{.level = surroundings_.worker.log},
                    RunFolder::Records::kTogether);
    folder_->record(RunRecord::kConfig, write_yaml(request_.composition.unresolved));
  }
  folder_->record(RunRecord::kOverrides, yaml_list(request_.composition.typed));
  folder_->record(RunRecord::kRecipe, recipe_text());
  folder_->record_json(RunRecord::kOrigins, origins());
  for (const auto& [path, name] : python_copy_names(request_.graph.python))
    folder_->record_in(
        RunRecord::kPython, name,
        std::ranges::find(request_.graph.python.entries, path, &PythonFile::path)->text);
  if (!request_.trained.empty()) {
    folder_->record_json(
        RunRecord::kSource,
        {{"schema", 1},
         {"run", std::filesystem::absolute(request_.source).lexically_normal().string()},
         {"checkpoints", to_json(request_.trained)}});
  }
  describe(ready);
  summary_.seconds = seconds_before_;  // the next attempt continues from this value if this attempt
                                       // is killed
  folder_->summary(summary_.to_json());
  folder_->commit();
  if (request_.recipe.has_tensorboard) begin_tensorboard();
  for (const KeptLine& line : kept_lines_) {
    folder_->log().write({line.level, line.node, line.text, seconds_before_ + line.seconds});
  }
  kept_lines_.clear();
}

void LiveRecord::begin_tensorboard() {
  tensorboard_.emplace(RunLayout(path()).tensorboard(), surroundings_.storage);
  const Hparams options = request_.hparams.empty()
                              ? overridden_options(path(), to_json(request_.recipe.resolved))
                              : request_.hparams;
  tensorboard_->begin(options, recipe_text(), wall_seconds());
}

/// Loads the metrics of a resumed run and the working times of its nodes. If the previous attempt
/// was killed and left no summary, counts a node's time from its start to its last metric.
void LiveRecord::take_up_metrics(WorkedTime before) {
  std::map<std::string, std::vector<MetricLine>> by_node;
  for (MetricLine& line : folder_->metrics().read()) {
    summary_.see(line.metric);
    if (before.is_killed) by_node[line.metric.node].push_back(std::move(line));
  }
  for (const auto& [node, lines] : by_node) {
    double& worked = before.nodes[node];
    worked = std::max(worked, std::ranges::max(lines, {}, &MetricLine::time).time -
                                  folder_->beginning_of(node, lines));
  }
  for (const auto& [node, seconds] : before.nodes) summary_.add_earlier(node, seconds);
}

/// Marks the inputs created by an earlier attempt: they may be missing when the run is repeated.
void LiveRecord::copy_marks() {
  const auto run = read_run(path());
  if (!run || inputs_.record().is_null()) return;
  const auto text =
      real_file_system().read(run->recipe.parent_path() / RunRecord::kEnvironment, 64 << 20);
  const Json before = text ? parse_json<Json>(*text) : Json();
  if (!before.is_object()) return;
  inputs_.copy_marks(before.value("inputs", Json()));
  environment_["inputs"] = inputs_.record();
}

void LiveRecord::check(const Json& environment,
                       const std::function<void(const Diagnostic&)>& report) const {
  if (!request_.check_environment) return;
  Diagnostics errors;
  for (Diagnostic& found : request_.check_environment(environment)) {
    if (found.severity == Severity::kError) errors.push_back(std::move(found));
    else report(found);
  }
  if (!errors.empty()) throw CannotOpenRecord{std::move(errors)};
}

/// Throws CannotOpenRecord if data or checkpoints have changed, because the next worker will list
/// the inputs again and load the checkpoints in the folder.
void LiveRecord::check_restart() const {
  Diagnostics errors = foreign_checkpoints(path(), request_.graph);
  for (const auto& [change, has_only_more] : changed_data())
    errors.push_back({ErrorCode::kChangedRun,
                      {},
                      change.pointer,
                      "since the run started, the input " + change.pointer + " " + change.text,
                      ""});
  for (Diagnostic& error : errors)
    error.help =
        "restore it and continue with `retort resume`; --force continues with the current files";
  if (!errors.empty()) throw CannotOpenRecord{std::move(errors)};
}

/// Weights and code are read only when the run begins; data is read throughout the run.
std::vector<WatchedInputs::Change> LiveRecord::changed_data() const {
  return inputs_.changes([&](const std::string& pointer) {
    if (request_.graph.python.has_entry(pointer)) return false;
    return std::ranges::any_of(request_.graph.nodes, [&](const Node& node) {
      return family_of(node.kind) == Family::kData && pointer.starts_with(node.pointer + "/");
    });
  });
}

/// Records the environment in which a worker runs.
void LiveRecord::describe(const Ready& ready) {
  folder_->record_json(RunRecord::kGraph, graph_record(ready));
  folder_->record_json(RunRecord::kEnvironment, environment_);
}

std::string LiveRecord::recipe_text() const {
  return write_yaml(as_unresolved(request_.recipe.resolved));
}

/// A secret may also be typed as the value of a key that is not secret itself.
Json LiveRecord::origins() const {
  Json all = origins_json(request_.recipe.resolved);
  for (Json& origin : all)
    if (origin.contains("override"))
      origin["override"] = without_secrets(origin["override"].get<std::string>());
  return all;
}

Json LiveRecord::environment_of(const Ready& ready, const Json& versions) const {
  Json environment = environment_record(versions, environ);
  Json installed;
  if (versions.is_object() && versions.contains("python")) {
    installed = versions["python"];
    environment["versions"].erase("python");
  }
  environment["device"] = ready.device;
  environment["threads"] = ready.threads;
  environment["determinism"] = name(request_.graph.determinism);
  environment["working_folder"] = request_.graph.working_folder.empty()
                                      ? std::filesystem::current_path().string()
                                      : request_.graph.working_folder;
  environment["variables"].update(ready.variables);
  for (const std::string& variable : variables_) {
    const std::size_t equals = variable.find('=');
    environment["variables"][variable.substr(0, equals)] = variable.substr(equals + 1);
  }
  if (!device_choice_.is_null()) environment["device_choice"] = device_choice_;
  if (surroundings_.worker.is_hosted)
    environment["python"] =
        python_record(request_.graph.python, surroundings_.worker.program, installed);
  if (!inputs_.record().is_null()) environment["inputs"] = inputs_.record();
  return environment;
}

std::filesystem::path LiveRecord::path() const {
  if (folder_) return folder_->path();
  return is_resumed() ? std::filesystem::absolute(request_.resume).lexically_normal()
                      : std::filesystem::path();
}

std::filesystem::path LiveRecord::folder_to_write() const {
  if (is_resumed()) return path();
  auto base = surroundings_.working_folder;
  if (base.empty()) base = std::filesystem::current_path();
  const auto path = create_run_folder(request_.recipe.run_dir, base, surroundings_.wall_clock(),
                                      surroundings_.storage);
  if (!path) throw CannotOpenRecord{path.errors()};
  return *path;
}

/// Returns the graph for the record, with the resolved values of `auto`. to_json(Graph) is meant
/// for the worker and contains secrets.
Json LiveRecord::graph_record(const Ready& ready) const {
  Json json = to_json(request_.graph);
  json["threads"] = ready.threads;
  json["device"] = ready.device;
  json["recipe_sha256"] = sha256(recipe_text());
  if (is_resumed()) json["accepted"] = accepted_;
  for (std::size_t i = 0; i < request_.graph.nodes.size(); ++i) {
    json["nodes"][i]["options"] = to_json(request_.graph.nodes[i].options, /*hide_secrets=*/true);
  }
  return json;
}

void LiveRecord::see(const Event& event) {
  // The metrics of one epoch arrive together.
  if (!std::holds_alternative<NodeMetric>(event)) write_histories();
  take_back_metrics(event);
  summary_.seconds = seconds();
  summary_.see(event);
  log_event(event);
  const auto* started = std::get_if<NodeStarted>(&event);
  if (started && is_of(Family::kTrain, started->node))
    histories_.insert_or_assign(started->node, TrainingHistory(seconds()));
  if (const auto* metric = std::get_if<NodeMetric>(&event); metric && folder_) {
    const double now = seconds();
    folder_->metrics().append(*metric, now);
    if (tensorboard_) tensorboard_->metric(*metric, wall_seconds());
    see_metric(*metric, now);
  }
  if (const auto* histogram = std::get_if<NodeHistogram>(&event); histogram && folder_) {
    folder_->histograms().append(*histogram, seconds());
    if (tensorboard_) tensorboard_->histogram(*histogram, wall_seconds());
  }
  const auto* finished = std::get_if<NodeFinished>(&event);
  if (finished && tensorboard_ && is_of(Family::kEvaluate, finished->node))
    tensorboard_->examples(finished->node, RunLayout(path()).node(finished->node).folder(),
                           wall_seconds());
  if (finished && folder_ && is_of(Family::kData, finished->node) && inputs_.look_for_made())
    record_inputs();
}

void LiveRecord::log_event(const Event& event) {
  if (const auto* started = std::get_if<NodeStarted>(&event)) {
    log(LogLevel::kInfo, started->node, "started");
  } else if (const auto* reused = std::get_if<Reused>(&event)) {
    log(LogLevel::kInfo, reused->node, "reused from " + shown_folder(reused->run));
  } else if (const auto* finished = std::get_if<NodeFinished>(&event)) {
    log(LogLevel::kInfo, finished->node,
        "finished in " + duration_text(finished->seconds) + ", peak memory of its tensors " +
            bytes_text(finished->peak_memory_bytes));
  } else if (const auto* said = std::get_if<Said>(&event)) {
    log(LogLevel::kInfo, said->node, said->line);
  } else if (const auto* logged = std::get_if<Logged>(&event)) {
    log(logged->level, logged->node, logged->line);
  }
}

bool LiveRecord::is_of(Family family, const std::string& node) const {
  const auto found = std::ranges::find(request_.graph.nodes, node, &Node::id);
  return found != request_.graph.nodes.end() && family_of(found->kind) == family;
}

void LiveRecord::see_metric(const NodeMetric& metric, double time) {
  const auto history = histories_.find(metric.node);
  if (history != histories_.end() && history->second.see(metric, time))
    unwritten_.insert(metric.node);
}

/// Writes the training histories that have new values.
void LiveRecord::write_histories() {
  for (const std::string& node : unwritten_) {
    folder_->record_history(node, histories_.at(node).to_json());
  }
  unwritten_.clear();
}

/// Continues the history of `node` after `kept`, its metrics from before the run was resumed.
void LiveRecord::take_up_history(const std::string& node, const std::vector<MetricLine>& kept) {
  if (!is_of(Family::kTrain, node)) return;
  const double began = kept.empty() ? seconds() : folder_->beginning_of(node, kept);
  histories_.insert_or_assign(node, TrainingHistory(began));
  for (const auto& [metric, time] : kept) see_metric(metric, time);
}

/// When a node runs again, drops its metrics from the record, because it will measure them again.
/// Keeps those up to the point from which the node continues.
void LiveRecord::take_back_metrics(const Event& event) {
  if (!folder_) return;
  const auto take_back = [&](const std::string& node, std::int64_t count, std::int64_t step) {
    running_anew_.reset();
    summary_.forget_metrics(node);
    const std::vector<MetricLine> kept = folder_->metrics().rewind(node, count);
    for (const MetricLine& line : kept) summary_.see(line.metric);
    folder_->histograms().rewind(node, step);
    if (tensorboard_) tensorboard_->restart(node, step == 0 ? 0 : step + 1, wall_seconds());
    if (count > 0) take_up_history(node, kept);
  };
  const bool has_earlier_metrics = is_resumed() || is_restarted_;
  if (const auto* started = std::get_if<NodeStarted>(&event); started && has_earlier_metrics)
    running_anew_ = started->node;
  if (const auto* resumed = std::get_if<Resumed>(&event)) {
    take_back(resumed->node, resumed->metrics, resumed->step);
    if (resumed->metrics == 0) take_up_history(resumed->node, {});
  }
  const auto* metric = std::get_if<NodeMetric>(&event);
  const auto* histogram = std::get_if<NodeHistogram>(&event);
  const auto* finished = std::get_if<NodeFinished>(&event);
  const bool has_begun = (metric && running_anew_ == metric->node) ||
                         (histogram && running_anew_ == histogram->node) ||
                         (finished && running_anew_ == finished->node);
  if (has_begun) take_back(std::string(*running_anew_), 0, 0);
}

void LiveRecord::sync_metrics() {
  write_histories();
  if (!folder_) return;
  folder_->metrics().sync();
  folder_->histograms().sync();
}

void LiveRecord::log(LogLevel level, const std::string& node, const std::string& line) {
  const std::string text = without_secrets(line);
  if (folder_) return folder_->log().write({level, node, text, seconds()});
  kept_bytes_ += text.size();
  if (kept_bytes_ <= kMaxKeptLog) kept_lines_.push_back({level, node, text, seconds()});
}

Diagnostics LiveRecord::look_at_inputs_again() {
  Diagnostics found;
  for (const auto& [change, has_only_more] : changed_data()) {
    const std::string what = "the input " + change.pointer + " " + change.text;
    if (has_only_more) {
      found.push_back({ErrorCode::kChangedRun,
                       {},
                       change.pointer,
                       what + ": files were added during the run",
                       "the run did not read them",
                       {},
                       Severity::kWarning});
      continue;
    }
    inputs_.mark_changed(change.pointer);
    const bool is_evaluation = !request_.trained.empty();
    found.push_back(
        {ErrorCode::kChangedRun,
         {},
         change.pointer,
         what + ": it was changed during the run, so the result does not match any single version "
                "of it",
         is_evaluation
             ? "restore it and evaluate again"
             : "restore it and run again; the trained weights are kept, and `retort resume " +
                   folder() + " --force` accepts the change"});
  }
  if (std::ranges::any_of(found,
                          [](const Diagnostic& one) { return one.severity == Severity::kError; }))
    record_inputs();
  return found;
}

void LiveRecord::record_inputs() {
  environment_["inputs"] = inputs_.record();
  folder_->record_json(RunRecord::kEnvironment, environment_);
}

void LiveRecord::close() {
  write_histories();
  log(LogLevel::kInfo, "", std::string(name(summary_.status)));
  folder_->log().flush();
  folder_->summary(summary_.to_json());
  folder_->commit();  // in case open() failed before its own commit()
  if (tensorboard_) tensorboard_->end(summary_.to_json(), wall_seconds());
}

double LiveRecord::wall_seconds() const {
  return std::chrono::duration<double>(surroundings_.wall_clock().time_since_epoch()).count();
}

double LiveRecord::seconds() const {
  return seconds_before_ +
         std::chrono::duration<double>(surroundings_.display.clock() - start_).count();
}

std::string LiveRecord::shown_folder(const std::filesystem::path& folder) {
  const auto relative = folder.lexically_relative(std::filesystem::current_path());
  const bool is_below = !relative.empty() && *relative.begin() != "..";
  return (is_below ? relative : folder).string();
}

}  // namespace runner
