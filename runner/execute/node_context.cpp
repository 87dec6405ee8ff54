#include "runner/execute/node_context.h"

#include <algorithm>
#include <exception>
#include <fstream>
#include <map>
#include <system_error>

#include <nlohmann/json.hpp>

#include "runner/disk/make_folders.h"
#include "runner/disk/new_file.h"
#include "runner/stage/family.h"
#include "runner/value/parse_json.h"

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

/// Goes back from an input with data to the nodes that it comes from, through those that only change it.
void add_sources(const Graph& graph, const Edge& edge, std::map<std::size_t, std::set<std::string>>& parts) {
  const Node& node = graph.nodes[edge.from];
  const auto goes_on = [&](const Edge& one) { return one.type == ArtifactType::kDataset && one.input == edge.output; };
  const auto before = std::ranges::find_if(node.inputs, goes_on);
  if (before != node.inputs.end()) add_sources(graph, *before, parts);
  else parts[edge.from].insert(edge.output);
}

/// The trainings that a node takes weights of, and those whose weights they began with.
void add_trainings(const Graph& graph, std::size_t index, std::set<std::size_t>& trainings) {
  for (const Edge& edge : graph.nodes[index].inputs) {
    if (edge.type != ArtifactType::kCheckpoint || trainings.contains(edge.from)) continue;
    trainings.insert(edge.from);
    add_trainings(graph, edge.from, trainings);
  }
}

/// Is `node` wired to a part for validation? Then it is meant to be tested on that.
bool tests_validation(const Node& node) {
  return std::ranges::any_of(
      node.inputs, [](const Edge& edge) { return edge.type == ArtifactType::kDataset && edge.output == "validation"; });
}

std::vector<TrainedData> trained_data(std::size_t index, const Graph& graph, const RunOptions& options) {
  std::set<std::size_t> trainings;
  add_trainings(graph, index, trainings);
  const bool knows_validation = tests_validation(graph.nodes[index]);
  std::map<std::size_t, std::set<std::string>> tested;
  for (const Edge& edge : graph.nodes[index].inputs)
    if (edge.type == ArtifactType::kDataset) add_sources(graph, edge, tested);
  std::map<fs::path, TrainedData> found;
  for (const std::size_t training : trainings) {
    const bool is_earlier = options.trained.contains(graph.nodes[training].id);
    const fs::path& run = is_earlier ? options.divisions : options.folder;
    std::map<std::size_t, std::set<std::string>> parts;
    for (const Edge& edge : graph.nodes[training].inputs)
      if (edge.type == ArtifactType::kDataset) add_sources(graph, edge, parts);
    for (auto& [data, names] : parts) {
      if (knows_validation) names.erase("validation");
      if (run.empty()) {
        const std::set<std::string>& wired = tested[data];
        std::erase_if(names, [&](const std::string& name) { return !wired.contains(name); });
      }
      if (names.empty()) continue;
      const fs::path folder = run.empty() ? fs::path() : RunLayout(run).node(graph.nodes[data].id).folder();
      TrainedData& one = found[folder];
      one.folder = folder;
      one.parts.insert(names.begin(), names.end());
      one.is_earlier = is_earlier;
    }
  }
  std::vector<TrainedData> result;
  for (auto& [folder, one] : found) result.push_back(std::move(one));
  return result;
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
