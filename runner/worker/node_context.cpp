#include "runner/worker/node_context.h"

#include <exception>
#include <fstream>
#include <system_error>

#include <nlohmann/json.hpp>

#include "runner/shared/disk/make_folders.h"
#include "runner/shared/disk/new_file.h"
#include "runner/worker/trained_data.h"
#include "runner/shared/stage/family.h"
#include "runner/shared/value/parse_json.h"

namespace runner {

namespace {

namespace fs = std::filesystem;

/// The folder of the node `id` in the run that is gone on with or done again, as far as it has come there.
fs::path earlier_folder(const std::string& id, const RunOptions& options) {
  std::error_code error;
  const fs::path& resumed = options.folder.empty() ? options.resumed : options.folder;
  for (const fs::path& run : {options.resume ? resumed : fs::path(), options.divisions}) {
    if (run.empty()) continue;
    const NodeLayout layout = RunLayout(run).node(id);
    if (fs::exists(layout.division(), error) || fs::exists(layout.finished(), error)) return layout.folder();
  }
  return {};
}

}  // namespace

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
                  .restarts = options.restarts,
                  .accepts_changes = options.accepts_changes};
  if (family_of(node.kind) == Family::kData) facts.earlier = earlier_folder(node.id, options);
  if (family_of(node.kind) == Family::kEvaluate) facts.trained_data = trained_data(index, graph, options);
  const auto given = options.trained.find(node.id);
  if (given != options.trained.end()) facts.trained = given->second;
  else if (taken && !node.cacheable) facts.trained = {taken->checkpoints(), CheckpointSource::Choice::kKept, true};
  return facts;
}

void keep_division(const NodeLayout& layout, const std::function<std::string()>& division) {
  make_folders(layout.folder());
  write_atomically(layout.division(), division());
}

void DryContext::replay(const std::filesystem::path& recorded) {
  std::ifstream file(recorded);
  if (!file) return;
  try {
    earlier_step_ = memory_plan_from_json(parse_json(file)).step;
  } catch (const std::exception& error) {
    world_.emit(Said{result_.node, "cannot read how a step was computed before, so it is planned anew: " +
                                       recorded.string() + ": " + error.what()});
  }
}

}  // namespace runner
