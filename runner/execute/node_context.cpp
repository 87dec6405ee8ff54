#include "runner/execute/node_context.h"

#include <exception>
#include <fstream>

#include <nlohmann/json.hpp>

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
  const auto given = options.trained.find(node.id);
  if (given != options.trained.end()) facts.trained = given->second;
  else if (taken && !node.cacheable) facts.trained = {taken->checkpoints(), CheckpointSource::Choice::kKept, true};
  return facts;
}

void DryContext::replay(const std::filesystem::path& recorded) {
  std::ifstream file(recorded);
  if (!file) return;
  try {
    earlier_step_ = memory_plan_from_json(nlohmann::ordered_json::parse(file)).step;
  } catch (const std::exception& error) {
    world_.emit(Said{result_.node, "cannot read how a step was computed before, so it is planned anew: " +
                                       recorded.string() + ": " + error.what()});
  }
}

}  // namespace runner
