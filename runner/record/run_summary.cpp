#include "runner/record/run_summary.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <stdexcept>
#include <utility>

#include <nlohmann/json.hpp>

#include "runner/value/json_number.h"

namespace runner {

using Json = nlohmann::ordered_json;

std::string_view name(RunStatus status) {
  constexpr std::array<std::string_view, 5> kNames = {"running", "finished", "failed", "interrupted", "worker died"};
  return kNames[static_cast<std::size_t>(status)];
}

std::vector<Recovered> recorded_recoveries(const std::filesystem::path& path) {
  std::ifstream file(path);
  const Json json = Json::parse(file, nullptr, /*allow_exceptions=*/false);
  std::vector<Recovered> all;
  if (!json.is_object() || !json.contains("recoveries") || !json["recoveries"].is_array()) return all;
  for (Json one : json["recoveries"]) {
    if (!one.is_object()) continue;
    one["event"] = "recovered";
    try {
      all.push_back(std::get<Recovered>(event_from_line(one.dump())));
    } catch (const std::runtime_error&) {
      continue;  // somebody has edited it
    }
  }
  return all;
}

RunSummary::RunSummary(const Graph& graph, std::string started, bool smoke)
    : recipe_(graph.recipe), started_(std::move(started)), smoke_(smoke) {
  for (const Node& node : graph.nodes) nodes_.push_back({node.id, "waiting"});
}

RunSummary::NodeState* RunSummary::node(const std::string& id) {
  const auto found = std::ranges::find(nodes_, id, &NodeState::id);
  return found == nodes_.end() ? nullptr : &*found;
}

void RunSummary::see(const Event& event) {
  if (const auto* reported = std::get_if<Reported>(&event)) add(reported->diagnostic);
  if (const auto* started = std::get_if<NodeStarted>(&event)) {
    if (NodeState* state = node(started->node)) state->status = "running";
  }
  if (const auto* finished = std::get_if<NodeFinished>(&event)) {
    if (NodeState* state = node(finished->node)) {
      *state = {state->id, "finished", finished->seconds, finished->peak_memory_bytes, state->reused_from};
    }
  }
  if (const auto* reused = std::get_if<Reused>(&event)) {
    if (NodeState* state = node(reused->node)) state->reused_from = reused->run;
  }
  if (const auto* recovered = std::get_if<Recovered>(&event)) recovered_.push_back(*recovered);
  if (const auto* metric = std::get_if<NodeMetric>(&event)) {
    const auto found = std::ranges::find_if(
        metrics_, [&](const Last& last) { return last.node == metric->node && last.name == metric->name; });
    if (found == metrics_.end()) metrics_.push_back({metric->node, metric->name, metric->value, metric->step});
    else *found = {metric->node, metric->name, metric->value, metric->step};
  }
}

std::string RunSummary::recovered_text() const {
  std::vector<std::pair<std::string, int>> counts;  // by cause, in the order in which they came
  int all = 0;
  for (const Recovered& one : recovered_) {
    if (one.recovery.cause == "memory is free again") continue;
    ++all;
    const auto known = std::ranges::find(counts, one.recovery.cause, &std::pair<std::string, int>::first);
    if (known != counts.end()) ++known->second;
    else counts.emplace_back(one.recovery.cause, 1);
  }
  if (all == 0) return "";
  std::string text = "recovered " + std::string(all == 1 ? "once" : std::to_string(all) + " times") + ": ";
  for (const auto& [cause, count] : counts)
    text += (&cause == &counts.front().first ? "" : ", ") + std::to_string(count) + " x " + cause;
  return text + " (recoveries in summary.json)";
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
  json["nodes"] = Json::array();
  for (const NodeState& state : nodes_) {
    Json object = {{"id", state.id}, {"status", state.status}};
    if (state.status == "finished") {
      object["seconds"] = state.seconds;
      object["peak_memory_bytes"] = state.peak_memory_bytes;
    }
    if (!state.reused_from.empty()) object["reused_from"] = state.reused_from;
    json["nodes"].push_back(std::move(object));
  }
  json["metrics"] = Json::object();
  for (const Last& last : metrics_) {
    json["metrics"][last.node][last.name] = {{"value", number_json(last.value)}, {"step", last.step}};
  }
  for (const Recovered& one : recovered_) {
    Json object = {{"node", one.node}};
    object.update(runner::to_json(one.recovery));
    json["recoveries"].push_back(std::move(object));
  }
  json["diagnostics"] = Json::array();
  for (const Diagnostic& diagnostic : diagnostics_) json["diagnostics"].push_back(runner::to_json(diagnostic));
  return json;
}

}  // namespace runner
