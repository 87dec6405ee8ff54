#include "runner/worker/kept_artifacts.h"

#include <utility>

#include "runner/shared/stage/family.h"

namespace runner {

bool is_left_out(const Edge& edge, const Node& node, const CheckpointSources& done) {
  return edge.type == ArtifactType::kDataset && done.contains(node.id);
}

KeptArtifacts::KeptArtifacts(const Graph& graph, const CheckpointSources& done,
                             const std::vector<bool>& runs)
    : graph_(graph), done_(done), runs_(runs), ports_(graph.nodes.size()) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!runs[i]) continue;
    for (const Edge& edge : graph.nodes[i].inputs) {
      if (!is_left_out(edge, graph.nodes[i], done)) ++ports_[edge.from][edge.output].waiting;
    }
  }
}

std::set<std::string> KeptArtifacts::wanted(std::size_t index) const {
  std::set<std::string> names;
  for (const auto& [name, port] : ports_[index])
    if (is_wanted(index, name)) names.insert(name);
  return names;
}

/// True if a node that runs needs the output. An artifact that only passes through a data node,
/// under the same name, is needed if that data node's output is.
bool KeptArtifacts::is_wanted(std::size_t index, const std::string& output) const {
  for (std::size_t i = index + 1; i < graph_.nodes.size(); ++i) {
    const Node& node = graph_.nodes[i];
    for (const Edge& edge : node.inputs) {
      if (!runs_[i] || edge.from != index || edge.output != output ||
          is_left_out(edge, node, done_))
        continue;
      const bool passes =
          edge.type == ArtifactType::kDataset && family_of(node.kind) == Family::kData;
      if (!passes || is_wanted(i, edge.input)) return true;
    }
  }
  return false;
}

Inputs KeptArtifacts::take(const Node& node) {
  Inputs::ByPort inputs;
  Inputs::Sources sources;
  for (const Edge& edge : node.inputs) {
    if (is_left_out(edge, node, done_)) continue;
    auto& port = ports_[edge.from].at(edge.output);
    sources.emplace(edge.input, graph_.nodes[edge.from].stage);
    if (port.artifact) inputs[edge.input].push_back(port.artifact);
    else if (!edge.optional) throw missing(edge);
    if (--port.waiting == 0) port.artifact.reset();
  }
  return Inputs(std::move(inputs), std::move(sources));
}

std::vector<NamedBytes> KeptArtifacts::held_elsewhere(const Inputs& inputs,
                                                      std::string_view device) const {
  std::vector<NamedBytes> held;
  std::set<const Artifact*> counted;
  for (std::size_t i = 0; i < ports_.size(); ++i) {
    for (const auto& [name, port] : ports_[i]) {
      if (!port.artifact || inputs.has(*port.artifact) ||
          !counted.insert(port.artifact.get()).second)
        continue;
      const HeldMemory memory = port.artifact->held();
      const std::int64_t bytes = memory.on_device + (device == "cpu" ? memory.on_host : 0);
      if (bytes > 0) held.push_back({graph_.nodes[i].id + "." + name, bytes});
    }
  }
  return held;
}

void KeptArtifacts::put(std::size_t index, const Outputs& outputs) {
  for (auto& [name, port] : ports_[index]) {
    const auto found = outputs.find(name);
    if (found != outputs.end()) port.artifact = found->second;
  }
}

StageError KeptArtifacts::missing(const Edge& edge) const {
  const bool is_data = edge.type == ArtifactType::kDataset;
  return StageError(is_data ? ErrorCode::kTooFewSamples : ErrorCode::kStageFailed,
                    "'" + graph_.nodes[edge.from].id + "' has no '" + edge.output +
                        "', which this stage needs")
      .with_help(is_data ? "add a " + edge.output + " part to the data, or remove this stage" : "");
}

}  // namespace runner
