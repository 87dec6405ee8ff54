#include "runner/worker/left_memory.h"

#include <algorithm>
#include <limits>

#include "runner/shared/stage/keeper.h"
#include "runner/shared/text/units.h"

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
      return node.why.empty() ? "cannot be planned before others have run"
                              : "cannot be planned: " + node.why;
    case DryNode::State::kReused:
      return "is reused from " + node.why;
    case DryNode::State::kRuns:
      break;
  }
  std::string text = "runs";
  if (!node.why.empty()) text += ", although an earlier run finished it: " + node.why;
  if (!node.plan) return text;
  text += "; needs " + size_text(node.plan->needed);
  if (!node.plan->held.empty()) text += ", " + held_text(*node.plan) + ",";
  if (node.plan->budget)
    text += " of " + size_text(*node.plan->budget) + " (" + node.plan->budget_from + ")";
  return text;
}

const MemoryPlan* largest_plan(const std::vector<DryNode>& nodes) {
  const MemoryPlan* largest = nullptr;
  for (const DryNode& node : nodes) {
    if (node.plan && (!largest || node.plan->needed > largest->needed)) largest = &*node.plan;
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
    json["reuse"].push_back(
        {{"node", node.node}, {"state", is_miss ? "miss" : name(node.state)}, {"why", node.why}});
  }
  return json;
}

namespace {

const Keeper* keeper_of(const ArtifactPtr& artifact) {
  return dynamic_cast<const Keeper*>(artifact.get());
}

}  // namespace

void LeftMemory::add(std::size_t index, const Outputs& outputs) {
  for (const auto& [port, output] : outputs) {
    const ArtifactPtr& artifact = output;
    const auto is_known = [&](const Share& share) { return share.artifact.lock() == artifact; };
    if (std::ranges::any_of(shares_, is_known)) continue;  // a node is passing the artifact along
    if (const Keeper* const keeper = keeper_of(artifact))
      shares_.push_back(
          {.node = index, .port = port, .artifact = artifact, .wanted = keeper->could_keep()});
  }
}

void LeftMemory::share(std::vector<DryNode>& planned, std::string_view device) {
  if (shares_.empty()) return;
  std::int64_t left = std::numeric_limits<std::int64_t>::max();
  is_planned_for_ = device == "cpu";
  for (const DryNode& node : planned) {
    if (is_planned_for_ && node.plan && node.plan->budget)
      left = std::min(left, std::max<std::int64_t>(*node.plan->budget - node.plan->needed, 0));
  }
  give(left);
  for (DryNode& node : planned) {
    if (node.plan) count_in(*node.plan);
  }
}

void LeftMemory::count_in(MemoryPlan& plan) {
  if (!is_planned_for_ || given() == 0) return;
  if (plan.budget && given() > *plan.budget - plan.needed)
    give(std::max<std::int64_t>(*plan.budget - plan.needed, 0));
  const std::int64_t bytes = given();
  if (bytes == 0) return;
  plan.needed += bytes;
  plan.terms.push_back({std::string(kCacheTerm), bytes, "kept in memory left free by the plans"});
  for (PlanAlternative& other : plan.alternatives) {
    const std::int64_t left =
        plan.budget ? std::max<std::int64_t>(*plan.budget - other.needed, 0) : bytes;
    other.needed += std::min(bytes, left);
  }
}

void LeftMemory::renew(std::size_t index, const Outputs& outputs) {
  for (Share& share : shares_) {
    const auto found = outputs.find(share.port);
    if (share.node != index || found == outputs.end()) continue;
    share.artifact = found->second;
    allow(share);
  }
}

std::vector<std::string> LeftMemory::text(std::size_t index) const {
  std::int64_t wanted = 0, bytes = 0;
  std::string elsewhere;
  for (const Share& share : shares_) {
    if (share.node != index) continue;
    wanted += share.wanted;
    bytes += share.given;
    if (const auto artifact = share.artifact.lock())
      elsewhere = keeper_of(artifact)->kept_elsewhere();
  }
  std::vector<std::string> lines;
  if (wanted > 0 && bytes == wanted)
    lines.push_back(size_text(bytes) + " may be cached in memory: all that this stage can use");
  else if (wanted > 0)
    lines.push_back(size_text(bytes) + " of the " + size_text(wanted) +
                    " that this stage could use may be cached in memory");
  if (!elsewhere.empty()) lines.push_back(elsewhere);
  return lines;
}

std::int64_t LeftMemory::given() const {
  std::int64_t sum = 0;
  for (const Share& share : shares_) sum += share.given;
  return sum;
}

/// Distributes at most `bytes` in total.
void LeftMemory::give(std::int64_t bytes) {
  double wanted = 0;
  for (const Share& share : shares_) wanted += static_cast<double>(share.wanted);
  const double part = wanted > 0 ? std::min(1.0, static_cast<double>(bytes) / wanted) : 1;
  for (Share& share : shares_) {
    // Keeps the sum of the rounded shares from exceeding the total.
    share.given =
        part == 1
            ? share.wanted
            : static_cast<std::int64_t>(part * static_cast<double>(share.wanted) * (1 - 1e-9));
    allow(share);
  }
}

void LeftMemory::allow(const Share& share) const {
  if (const auto artifact = share.artifact.lock())
    keeper_of(artifact)->allow({.memory = share.given, .cache = cache_, .build = build_});
}

}  // namespace runner
