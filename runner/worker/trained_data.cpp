#include "runner/worker/trained_data.h"

#include <algorithm>
#include <exception>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "runner/shared/disk/file_system.h"
#include "runner/shared/record/recorded_run.h"
#include "runner/shared/stage/family.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/weights/strict_json.h"

namespace runner {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLargestGraph = std::size_t{64} << 20;  // bytes
constexpr std::size_t kDeepestGraph = 100;

/// Goes back from an input with data to the nodes that it comes from, through those that only change it.
void add_sources(const Graph& graph, const Edge& edge, std::map<std::size_t, std::set<std::string>>& parts) {
  const Node& node = graph.nodes[edge.from];
  const auto goes_on = [&](const Edge& one) { return one.type == ArtifactType::kDataset && one.input == edge.output; };
  const auto before = std::ranges::find_if(node.inputs, goes_on);
  if (before != node.inputs.end()) add_sources(graph, *before, parts);
  else parts[edge.from].insert(edge.output);
}

/// Is `node` wired to a part for validation? Then it is meant to be tested on that.
bool tests_validation(const Node& node) {
  return std::ranges::any_of(
      node.inputs, [](const Edge& edge) { return edge.type == ArtifactType::kDataset && edge.output == "validation"; });
}

/// The trainings that a node takes weights of, and those before them, since a training may begin with another's
/// weights.
void add_trainings(const Graph& graph, std::size_t index, std::set<std::size_t>& trainings) {
  for (const Edge& edge : graph.nodes[index].inputs)
    if (edge.type == ArtifactType::kCheckpoint && trainings.insert(edge.from).second)
      add_trainings(graph, edge.from, trainings);
}

/// The texts in some options.
void add_texts(const Value& value, std::vector<std::string>& texts) {
  if (const std::string* text = value.text()) texts.push_back(*text);
  if (const Value::List* list = value.list())
    for (const Value& element : *list) add_texts(element, texts);
  if (const Value::Map* map = value.map())
    for (const Entry& entry : *map) add_texts(entry.value, texts);
}

/// What a recorded run was compiled to; nullopt where that cannot be read.
std::optional<Graph> recorded_graph(const fs::path& run) {
  const fs::path file = RunLayout(run).records() / RunRecord::kGraph;
  const auto text = real_file_system().read(file, kLargestGraph);
  if (!text) return std::nullopt;
  try {
    Graph graph = graph_from_json(nlohmann::ordered_json(parse_strict_json(*text, kDeepestGraph, "it")));
    if (graph.working_folder.empty())
      if (const auto folder = working_folder_of(file.parent_path() / RunRecord::kRecipe))
        graph.working_folder = folder->string();
    return graph;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

/// Collects them over runs.
class TrainedDataSearch {
 public:
  explicit TrainedDataSearch(bool knows_validation) : knows_validation_(knows_validation) {}

  /// The parts, by the node of the data, that a training takes.
  std::map<std::size_t, std::set<std::string>> parts_of(const Graph& graph, std::size_t training) const {
    std::map<std::size_t, std::set<std::string>> parts;
    for (const Edge& edge : graph.nodes[training].inputs)
      if (edge.type == ArtifactType::kDataset) add_sources(graph, edge, parts);
    if (knows_validation_)
      for (auto& [data, names] : parts) names.erase("validation");
    return parts;
  }

  void add(const fs::path& folder, const std::set<std::string>& parts, bool is_earlier) {
    if (parts.empty()) return;
    TrainedData& one = found_[folder];
    one.folder = folder;
    one.parts.insert(parts.begin(), parts.end());
    one.is_earlier = is_earlier;
  }

  /// Follows the node `index` to the runs that the files lie in which its options, and those of the model that it
  /// takes, name.
  void follow(const Graph& graph, std::size_t index) {
    const Node& node = graph.nodes[index];
    std::vector<std::string> texts;
    add_texts(node.options, texts);
    std::error_code error;
    const fs::path here = fs::absolute(graph.working_folder.empty() ? "." : graph.working_folder, error);
    const auto run_here = run_of(here);  // in which a text that names nothing would lie
    for (const std::string& text : texts) {
      const fs::path path = (here / text).lexically_normal();
      const auto run = text.empty() ? std::nullopt : run_of(path);
      if (run && (run != run_here || fs::exists(path, error))) add_run(*run, path);
    }
    for (const Edge& edge : node.inputs)
      if (family_of(graph.nodes[edge.from].kind) == Family::kModel) follow(graph, edge.from);
  }

  std::vector<TrainedData> found() && {
    std::vector<TrainedData> result;
    for (auto& [folder, one] : found_) result.push_back(std::move(one));
    return result;
  }

 private:
  /// The trainings in `run` that the weights at `path` may be of: those of one node where that lies in its folder.
  void add_run(const fs::path& run, const fs::path& path) {
    const fs::path below = path.lexically_relative(RunLayout(run).nodes());
    const std::string node = below.empty() || *below.begin() == ".." || *below.begin() == "." ? "" : *below.begin();
    if (!seen_.insert(run / node).second) return;
    const auto graph = recorded_graph(run);
    if (!graph) return add(run, {"train"}, /*is_earlier=*/true);
    std::set<std::size_t> trainings;
    for (std::size_t i = 0; i < graph->nodes.size(); ++i) {
      if (family_of(graph->nodes[i].kind) != Family::kTrain || (!node.empty() && graph->nodes[i].id != node)) continue;
      trainings.insert(i);
      add_trainings(*graph, i, trainings);
    }
    for (const std::size_t training : trainings) {
      for (const auto& [data, names] : parts_of(*graph, training))
        add(RunLayout(run).node(graph->nodes[data].id).folder(), names, /*is_earlier=*/true);
      follow(*graph, training);
    }
  }

  const bool knows_validation_;
  std::map<fs::path, TrainedData> found_;
  std::set<fs::path> seen_;  // runs, and nodes of them
};

}  // namespace

std::vector<TrainedData> trained_data(std::size_t index, const Graph& graph, const RunOptions& options) {
  std::set<std::size_t> trainings;
  add_trainings(graph, index, trainings);
  TrainedDataSearch search(tests_validation(graph.nodes[index]));
  std::map<std::size_t, std::set<std::string>> tested;
  for (const Edge& edge : graph.nodes[index].inputs)
    if (edge.type == ArtifactType::kDataset) add_sources(graph, edge, tested);
  for (const std::size_t training : trainings) {
    const bool is_earlier = options.trained.contains(graph.nodes[training].id);
    const fs::path& run = is_earlier ? options.divisions : options.folder;
    for (auto& [data, names] : search.parts_of(graph, training)) {
      std::set<std::string> given = names;
      const std::set<std::string>& wired = tested[data];
      if (run.empty()) std::erase_if(given, [&](const std::string& name) { return !wired.contains(name); });
      search.add(run.empty() ? fs::path() : RunLayout(run).node(graph.nodes[data].id).folder(), given, is_earlier);
    }
    search.follow(graph, training);
  }
  return std::move(search).found();
}

}  // namespace runner
