#include "runner/execute/node_context.h"

namespace runner {

NodeFacts node_facts(std::size_t index, const Graph& graph, const RunOptions& options, std::string_view device,
                     std::set<std::string> wanted, const std::optional<NodeLayout>& taken) {
  const Node& node = graph.nodes[index];
  NodeFacts facts{.seed = node.seed,
                  .recipe_hash = graph.recipe_hash,
                  .device = std::string(device),
                  .resuming = options.resume,
                  .smoke = options.smoke,
                  .reuses = taken && node.cacheable,
                  .wanted = std::move(wanted),
                  .restarts = options.restarts};
  const auto given = options.checkpoints.find(node.id);
  if (given != options.checkpoints.end()) facts.trained = given->second;
  else if (taken && !node.cacheable) facts.trained = {taken->checkpoints(), CheckpointSource::Choice::kKept, true};
  return facts;
}

}  // namespace runner
