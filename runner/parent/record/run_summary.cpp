#include "runner/parent/record/run_summary.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <fstream>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "runner/shared/disk/descriptor.h"
#include "runner/shared/record/metrics_file.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/value/json_fields.h"
#include "runner/shared/value/parse_json.h"

namespace runner {
namespace {

constexpr std::string_view kValidated = "validation/";

}  // namespace

std::optional<Monitor> monitor_of(const Value& options) {
  const Value *name = options.find("monitor"), *keep = options.find("keep");
  if (!name || !name->text()) return std::nullopt;
  Monitor monitor{
      .metric = std::string(kValidated) + *name->text(),
      .is_smaller_better = name->says("loss") || name->says("mae") || name->says("rmse")};
  monitor.keeps_best = !keep || !keep->says("last");
  return monitor;
}

void BestValidation::see(const std::string& name, double value, std::int64_t step) {
  if (!name.starts_with(kValidated)) return;
  if (step != last_step_) last_.clear();
  last_step_ = step;
  last_[name] = value;
  if (best_step_ == step) best_[name] = value;
  if (name != monitor_.metric || !std::isfinite(value)) return;
  const double improvement = monitor_.is_smaller_better ? best_value_ - value : value - best_value_;
  if (best_step_ && improvement <= 0) return;
  best_step_ = step;
  best_value_ = value;
  best_ = last_;
}

using Json = nlohmann::ordered_json;

std::string_view name(RunStatus status) {
  constexpr std::array<std::string_view, 5> kNames = {"running", "finished", "failed",
                                                      "interrupted", "worker died"};
  return kNames[static_cast<std::size_t>(status)];
}

double started_at(const std::filesystem::path& folder) {
  std::ifstream file = open_regular(RunLayout(folder).summary());
  const auto json = parse_json(file);
  const auto started = json.is_object() ? json.find("started") : json.end();
  if (!json.is_object() || started == json.end() || !started->is_string()) return 0;
  std::tm time{};
  if (!strptime(started->get<std::string>().c_str(), "%Y-%m-%dT%H:%M:%S%z", &time)) return 0;
  const long offset = time.tm_gmtoff;  // timegm() ignores and clears it
  return static_cast<double>(timegm(&time) - offset);
}

WorkedTime worked_time(const std::filesystem::path& folder) {
  const RunLayout layout(folder);
  std::ifstream file = open_regular(layout.summary());
  const Json json = parse_json<Json>(file);
  WorkedTime worked{.seconds = last_measured(layout.metrics())};
  if (!json.is_object()) return worked;
  worked.is_killed = json.value("status", Json()) == name(RunStatus::kRunning);
  if (const Json seconds = json.value("seconds", Json()); seconds.is_number())
    worked.seconds = std::max(worked.seconds, seconds.get<double>());
  if (!json.contains("nodes") || !json["nodes"].is_array()) return worked;
  for (const Json& node : json["nodes"]) {
    if (!node.is_object()) continue;
    const Json id = node.value("id", Json()), seconds = node.value("seconds", Json());
    if (id.is_string() && seconds.is_number()) worked.nodes[id] = seconds;
  }
  return worked;
}

std::vector<Recovered> recorded_recoveries(const std::filesystem::path& path) {
  std::ifstream file = open_regular(path);
  const Json json = parse_json<Json>(file);
  std::vector<Recovered> all;
  if (!json.is_object() || !json.contains("recoveries") || !json["recoveries"].is_array())
    return all;
  for (Json one : json["recoveries"]) {
    if (!one.is_object()) continue;
    one["event"] = "recovered";
    try {
      all.push_back(std::get<Recovered>(event_from_line(one.dump())));
    } catch (const std::runtime_error&) {
      continue;  // skip an invalid recovery; the file may have been edited
    }
  }
  return all;
}

namespace {

Diagnostics recorded_errors(const Json& attempt) {
  Diagnostics errors;
  if (!attempt.contains("diagnostics") || !attempt["diagnostics"].is_array()) return errors;
  for (Json one : attempt["diagnostics"]) {
    if (!one.is_object() || one.value("severity", Json()) != "error") continue;
    one["event"] = "diagnostic";
    one["notes"] = Json::array();
    try {
      errors.push_back(std::get<Reported>(event_from_line(one.dump())).diagnostic);
    } catch (const std::runtime_error&) {
      continue;  // skip an invalid error; the file may have been edited
    }
  }
  return errors;
}

EarlierAttempt recorded_attempt(const Json& json) {
  const Json status = json.value("status", Json());
  EarlierAttempt attempt{.status = status.is_string() ? status.get<std::string>() : "",
                         .errors = recorded_errors(json)};
  if (attempt.status == name(RunStatus::kRunning)) attempt.status = "interrupted";
  return attempt;
}

}  // namespace

std::vector<EarlierAttempt> recorded_attempts(const std::filesystem::path& path) {
  std::ifstream file = open_regular(path);
  const Json json = parse_json<Json>(file);
  std::vector<EarlierAttempt> attempts;
  if (!json.is_object()) return attempts;
  if (json.contains("earlier") && json["earlier"].is_array()) {
    for (const Json& one : json["earlier"])
      if (one.is_object()) attempts.push_back(recorded_attempt(one));
  }
  attempts.push_back(recorded_attempt(json));
  return attempts;
}

RunSummary::RunSummary(const Graph& graph, std::string started, bool smoke)
    : recipe_(graph.recipe), started_(std::move(started)), remarks_(graph.remarks), smoke_(smoke) {
  for (const Node& node : graph.nodes) {
    nodes_.push_back({node.id, "waiting"});
    if (auto monitor = monitor_of(node.options))
      trainings_.push_back({node.id, node.kind, BestValidation(*std::move(monitor))});
  }
}

RunSummary::NodeState* RunSummary::node(const std::string& id) {
  const auto found = std::ranges::find(nodes_, id, &NodeState::id);
  return found == nodes_.end() ? nullptr : &*found;
}

void RunSummary::see(const Event& event) {
  if (const auto* reported = std::get_if<Reported>(&event)) add(reported->diagnostic);
  if (const auto* started = std::get_if<NodeStarted>(&event)) {
    if (NodeState* state = node(started->node)) {
      state->status = "running";
      if (state->began)
        state->seconds += seconds - *state->began;  // another worker has replaced the node's worker
      state->began = seconds;
    }
  }
  if (const auto* finished = std::get_if<NodeFinished>(&event)) {
    if (NodeState* state = node(finished->node)) {
      state->status = "finished";
      state->peak_memory_bytes = finished->peak_memory_bytes;
      // A node that finished before this attempt is reported again, with the seconds from the
      // attempt in which it finished.
      state->seconds = state->began ? state->seconds + finished->seconds
                                    : std::max(state->seconds, finished->seconds);
      state->began.reset();
    }
  }
  if (const auto* reused = std::get_if<Reused>(&event)) {
    if (NodeState* state = node(reused->node)) state->reused_from = reused->run;
  }
  if (const auto* recovered = std::get_if<Recovered>(&event)) recovered_.push_back(*recovered);
  if (const auto* metric = std::get_if<NodeMetric>(&event)) {
    const auto found = std::ranges::find_if(metrics_, [&](const Last& last) {
      return last.node == metric->node && last.name == metric->name;
    });
    if (found == metrics_.end())
      metrics_.push_back({metric->node, metric->name, metric->value, metric->step});
    else *found = {metric->node, metric->name, metric->value, metric->step};
    const auto training = std::ranges::find(trainings_, metric->node, &Training::node);
    if (training != trainings_.end()) training->best.see(metric->name, metric->value, metric->step);
  }
}

void RunSummary::forget_metrics(const std::string& node) {
  std::erase_if(metrics_, [&](const Last& last) { return last.node == node; });
  const auto training = std::ranges::find(trainings_, node, &Training::node);
  if (training != trainings_.end()) training->best = BestValidation(training->best.monitor());
}

void RunSummary::add_earlier(const std::string& id, double earlier) {
  if (NodeState* state = node(id)) state->seconds += earlier;
}

std::string RunSummary::recovered_text() const {
  std::vector<std::pair<std::string, int>> counts;  // counts by cause, in order of first occurrence
  int all = 0;
  for (const Recovered& one : recovered_) {
    if (one.recovery.cause == "memory is free again") continue;
    ++all;
    const auto known =
        std::ranges::find(counts, one.recovery.cause, &std::pair<std::string, int>::first);
    if (known != counts.end()) ++known->second;
    else counts.emplace_back(one.recovery.cause, 1);
  }
  if (all == 0) return "";
  std::string text =
      "recovered " + std::string(all == 1 ? "once" : std::to_string(all) + " times") + ": ";
  for (const auto& [cause, count] : counts)
    text += (&cause == &counts.front().first ? "" : ", ") + std::to_string(count) + " x " + cause;
  return text + " (recoveries in summary.json)";
}

/// Returns, for each training node, the metric used to select its weights and the metrics of those
/// weights.
Json RunSummary::kept_json() const {
  Json kept = Json::object();
  for (const Training& training : trainings_) {
    Json metrics = Json::object();
    for (const auto& [name, value] : training.best.kept()) metrics[name] = number_json(value);
    kept[training.node] = {{"kind", training.kind}, {"monitor", training.best.monitor().metric}};
    if (metrics.empty()) continue;
    kept[training.node]["step"] = training.best.kept_step();
    kept[training.node]["metrics"] = std::move(metrics);
  }
  return kept;
}

Json RunSummary::to_json() const {
  Json json = {{"schema", 1},
               {"recipe", recipe_},
               {"status", name(status)},
               {"exit", exit ? Json(static_cast<int>(*exit)) : Json(nullptr)},
               {"started", started_},
               {"seconds", seconds}};
  if (signal) json["signal"] = *signal;
  if (smoke_) json["smoke"] = true;
  if (!remarks_.empty()) json["remarks"] = remarks_;
  json["nodes"] = Json::array();
  for (const NodeState& state : nodes_) {
    Json object = {{"id", state.id}, {"status", state.status}};
    const double worked = state.seconds + (state.began ? seconds - *state.began : 0);
    if (state.status == "finished" || worked > 0) object["seconds"] = worked;
    if (state.status == "finished") object["peak_memory_bytes"] = state.peak_memory_bytes;
    if (!state.reused_from.empty()) object["reused_from"] = state.reused_from;
    json["nodes"].push_back(std::move(object));
  }
  json["metrics"] = Json::object();
  for (const Last& last : metrics_) {
    json["metrics"][last.node][last.name] = {{"value", number_json(last.value)},
                                             {"step", last.step}};
  }
  if (!trainings_.empty()) json["kept"] = kept_json();
  for (const Recovered& one : recovered_) {
    Json object = {{"node", one.node}};
    object.update(runner::to_json(one.recovery));
    json["recoveries"].push_back(std::move(object));
  }
  for (const auto& [status, errors] : earlier) {
    Json list = Json::array();
    for (const Diagnostic& error : errors) list.push_back(runner::to_json(error));
    json["earlier"].push_back({{"status", status}, {"diagnostics", std::move(list)}});
  }
  json["diagnostics"] = Json::array();
  for (const Diagnostic& diagnostic : diagnostics_)
    json["diagnostics"].push_back(runner::to_json(diagnostic));
  return json;
}

}  // namespace runner
