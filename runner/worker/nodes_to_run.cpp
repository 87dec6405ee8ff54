#include "runner/worker/nodes_to_run.h"

#include <cstddef>
#include <filesystem>
#include <optional>
#include <set>

#include <nlohmann/json.hpp>

#include "runner/shared/record/node_index.h"
#include "runner/shared/stage/family.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/value/parse_json.h"
#include "runner/worker/executor.h"
#include "runner/worker/kept_artifacts.h"
#include "runner/worker/reuse.h"

namespace runner {

std::vector<bool> nodes_to_run(const Graph& graph, std::span<const std::string> keys,
                               const RunOptions& options, Reuse* reuse,
                               const ExecutorWorld& world) {
  std::vector<bool> runs(graph.nodes.size(), false);
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    const std::filesystem::path folder = RunLayout(options.record()).node(node.id).folder();
    const auto finished = options.resume ? read_finished(folder) : std::nullopt;
    // Consumers come after their producers in the order, so it is already known whether node i is
    // needed.
    bool is_done = finished && finished->key == keys[i];
    if (const auto missing = is_done ? what_is_missing(folder, *finished) : std::nullopt) {
      world.emit(Said{node.id, *missing + ": running it again"});
      is_done = false;
    }
    const bool is_taken = reuse && (!is_done || runs[i]) && reuse->take(i, /*needed=*/runs[i]);
    if (!is_done && !is_taken) runs[i] = true;
    if (!runs[i]) continue;
    for (const Edge& edge : node.inputs) {
      if (!is_left_out(edge, node, options.trained)) runs[edge.from] = true;
    }
  }
  return runs;
}

std::vector<bool> as_first_decides(std::vector<bool> runs, const Graph& graph,
                                   const RunOptions& options, const ExecutorWorld& world) {
  if (options.ranks.size == 1) return runs;
  nlohmann::ordered_json own = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (runs[i]) own.push_back(graph.nodes[i].id);
  }
  const std::string decided = world.text_of_first(own.dump());
  if (options.ranks.rank == 0) return runs;
  const auto of_first = parse_json<nlohmann::ordered_json>(decided).get<std::set<std::string>>();
  runs.assign(runs.size(), false);
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    if (family_of(node.kind) == Family::kTrain && of_first.contains(node.id)) runs[i] = true;
    if (!runs[i]) continue;
    for (const Edge& edge : node.inputs) runs[edge.from] = true;
  }
  return runs;
}

}  // namespace runner
