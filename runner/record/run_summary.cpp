#include "runner/record/run_summary.h"

#include <algorithm>
#include <array>

#include <nlohmann/json.hpp>

#include "runner/value/json_number.h"

namespace runner {

using Json = nlohmann::ordered_json;

std::string_view name(RunStatus status) {
  constexpr std::array<std::string_view, 5> kNames = {"running", "finished", "failed", "interrupted", "worker died"};
  return kNames[static_cast<std::size_t>(status)];
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
  if (const auto* metric = std::get_if<NodeMetric>(&event)) {
    const auto found = std::ranges::find_if(
        metrics_, [&](const Last& last) { return last.node == metric->node && last.name == metric->name; });
    if (found == metrics_.end()) metrics_.push_back({metric->node, metric->name, metric->value, metric->step});
    else *found = {metric->node, metric->name, metric->value, metric->step};
  }
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
  json["diagnostics"] = Json::array();
  for (const Diagnostic& diagnostic : diagnostics_) json["diagnostics"].push_back(runner::to_json(diagnostic));
  return json;
}

}  // namespace runner
