#include "runner/worker/nodes_to_run.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <optional>

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
                                   std::vector<std::size_t>& order, const RunOptions& options,
                                   const ExecutorWorld& world) {
  if (options.ranks.size == 1) return runs;
  nlohmann::ordered_json own = nlohmann::ordered_json::array();
  for (const std::size_t i : order) {
    if (runs[i]) own.push_back(graph.nodes[i].id);
  }
  const std::string decided = world.text_of_first(own.dump());
  if (options.ranks.rank == 0) return runs;
  const auto of_first = parse_json<nlohmann::ordered_json>(decided).get<std::vector<std::string>>();
  const auto place = [&](std::size_t i) {
    return std::ranges::find(of_first, graph.nodes[i].id) - of_first.begin();
  };
  for (std::size_t i = 0; i < runs.size(); ++i) runs[i] = place(i) < std::ssize(of_first);
  std::ranges::stable_sort(order, {}, place);  // nodes that rank 0 does not run come last
  return run_by_all(runs, graph);
}

std::vector<bool> run_by_all(const std::vector<bool>& runs, const Graph& graph) {
  std::vector<bool> all(runs.size(), false);
  for (std::size_t i = runs.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    if (runs[i] && family_of(node.kind) == Family::kTrain) all[i] = true;
    if (!all[i]) continue;
    for (const Edge& edge : node.inputs) all[edge.from] = true;
  }
  return all;
}

}  // namespace runner
