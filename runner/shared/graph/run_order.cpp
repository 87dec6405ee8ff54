#include "runner/shared/graph/run_order.h"

#include <algorithm>
#include <cassert>
#include <compare>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace runner {
namespace {

/// Returns the relative amount of memory needed by an artifact of this type: most for a checkpoint
/// (a network), less for samples in memory, least for rows of scores.
int weight_in_memory(ArtifactType type) {
  switch (type) {
    case ArtifactType::kCheckpoint:
      return 4;
    case ArtifactType::kDataset:
      return 2;
    case ArtifactType::kPredictions:
      return 1;
    case ArtifactType::kModel:
    case ArtifactType::kMemoryPolicy:
    case ArtifactType::kMetrics:
      return 0;
  }
  assert(false);
  return 0;
}

/// An output of a node that has consumers.
struct WantedOutput {
  int weight = 0;
  std::size_t waiting = 0;  // consumers that have not run yet
};

/// The effect on memory use of running some nodes. Less growth sorts first; with equal growth,
/// smaller outputs sort first.
struct MemoryChange {
  int growth = 0;  ///< the resulting change in the total weight in memory
  int made = 0;    ///< the total weight of the nodes' outputs
  auto operator<=>(const MemoryChange&) const = default;
};

class RunOrdering {
 public:
  explicit RunOrdering(const Graph& graph)
      : graph_(graph), made_(graph.nodes.size()), taken_(graph.nodes.size()) {
    std::map<std::pair<std::size_t, std::string>, std::size_t> known;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      for (const Edge& edge : graph.nodes[i].inputs) {
        const auto [output, is_new] =
            known.emplace(std::pair(edge.from, edge.output), outputs_.size());
        if (is_new) {
          outputs_.push_back({weight_in_memory(edge.type)});
          made_[edge.from].push_back(output->second);
        }
        ++outputs_[output->second].waiting;
        taken_[i].push_back(output->second);
      }
    }
    is_done_.assign(graph.nodes.size(), false);
    seen_.assign(outputs_.size(), 0);
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) is_goal_.push_back(is_goal(i));
  }

  std::vector<std::size_t> run() {
    while (order_.size() < graph_.nodes.size()) {
      std::optional<MemoryChange> least;
      std::vector<std::size_t> next, needed;
      for (std::size_t goal = 0; goal < graph_.nodes.size(); ++goal) {
        if (!is_goal_[goal] || is_done_[goal]) continue;
        needed.clear();
        if (!add_what_is_needed(goal, goal, needed)) continue;
        const MemoryChange change = change_by(needed);
        if (least && !(change < *least)) continue;
        least = change;
        next = needed;
      }
      assert(least);
      std::ranges::sort(next);  // producers come before consumers
      for (const std::size_t node : next) finish(node);
    }
    return std::move(order_);
  }

 private:
  /// True if `node` is run for its own sake, because it consumes an artifact with a weight
  /// (weight_in_memory()) or because no node consumes its output. Other nodes create data, models
  /// and policies, and are run only when needed.
  bool is_goal(std::size_t node) const {
    const auto is_heavy = [&](std::size_t output) { return outputs_[output].weight > 0; };
    return made_[node].empty() || std::ranges::any_of(taken_[node], is_heavy);
  }

  /// Adds `node` and everything that must run before it to `needed`; returns false if that includes
  /// a goal other than `goal`.
  bool add_what_is_needed(std::size_t node, std::size_t goal,
                          std::vector<std::size_t>& needed) const {
    if (is_done_[node] || std::ranges::count(needed, node) > 0) return true;
    if (node != goal && is_goal_[node]) return false;
    needed.push_back(node);
    return std::ranges::all_of(graph_.nodes[node].inputs, [&](const Edge& edge) {
      return add_what_is_needed(edge.from, goal, needed);
    });
  }

  MemoryChange change_by(const std::vector<std::size_t>& nodes) {
    MemoryChange change;
    for (const std::size_t node : nodes) {
      for (const std::size_t output : made_[node]) change.made += outputs_[output].weight;
      for (const std::size_t output : taken_[node]) {
        if (++seen_[output] == outputs_[output].waiting) change.growth -= outputs_[output].weight;
      }
    }
    change.growth += change.made;
    for (const std::size_t node : nodes) {
      for (const std::size_t output : taken_[node]) seen_[output] = 0;
    }
    return change;
  }

  void finish(std::size_t node) {
    for (const std::size_t output : taken_[node]) --outputs_[output].waiting;
    is_done_[node] = true;
    order_.push_back(node);
  }

  const Graph& graph_;
  std::vector<WantedOutput> outputs_;
  std::vector<std::vector<std::size_t>> made_, taken_;  // output indices, by node
  std::vector<bool> is_goal_, is_done_;                 // by node
  std::vector<std::size_t>
      seen_;  // for each output, the number of consumers among the nodes considered; otherwise 0
  std::vector<std::size_t> order_;
};

}  // namespace

std::vector<std::size_t> run_order(const Graph& graph) { return RunOrdering(graph).run(); }

}  // namespace runner
