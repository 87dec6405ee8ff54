#include "runner/worker/dry_run.h"

#include "runner/shared/text/bytes.h"

namespace runner {
namespace {

const char* name(DryNode::State state) {
  switch (state) {
    case DryNode::State::kUnknown:
      return "unknown";
    case DryNode::State::kReused:
      return "hit";
    case DryNode::State::kRuns:
      break;
  }
  return "run";
}

}  // namespace

std::string log_text(const DryNode& node) {
  switch (node.state) {
    case DryNode::State::kUnknown:
      return node.why.empty() ? "cannot be planned before others have run" : "cannot be planned: " + node.why;
    case DryNode::State::kReused:
      return "is reused from " + node.why;
    case DryNode::State::kRuns:
      break;
  }
  std::string text = "runs";
  if (!node.why.empty()) text += ", although an earlier run has finished it: " + node.why;
  if (!node.plan) return text;
  text += "; needs " + size_text(node.plan->predicted);
  if (!node.plan->held.empty()) text += ", " + held_text(*node.plan) + ",";
  if (node.plan->budget) text += " of " + size_text(*node.plan->budget) + " (" + node.plan->budget_from + ")";
  return text;
}

const MemoryPlan* largest_plan(const std::vector<DryNode>& nodes) {
  const MemoryPlan* largest = nullptr;
  for (const DryNode& node : nodes) {
    if (node.plan && (!largest || node.plan->predicted > largest->predicted)) largest = &*node.plan;
  }
  return largest;
}

nlohmann::ordered_json to_json(const std::vector<DryNode>& nodes) {
  nlohmann::ordered_json json = {{"plans", nlohmann::ordered_json::array()},
                                 {"certificates", nlohmann::ordered_json::array()},
                                 {"reuse", nlohmann::ordered_json::array()}};
  for (const DryNode& node : nodes) {
    if (node.plan) json["plans"].push_back(to_json(*node.plan));
    if (node.certificate) json["certificates"].push_back(to_json(*node.certificate));
    const bool is_miss = node.state == DryNode::State::kRuns && !node.why.empty();
    json["reuse"].push_back({{"node", node.node}, {"state", is_miss ? "miss" : name(node.state)}, {"why", node.why}});
  }
  return json;
}

}  // namespace runner
