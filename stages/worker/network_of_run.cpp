#include "stages/worker/network_of_run.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "runner/execute/executor.h"
#include "runner/stage/stage.h"
#include "stages/data/image_transform.h"
#include "stages/stages.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

/// A node that measures and writes nothing.
class LoadingContext final : public runner::RunContext {
 public:
  LoadingContext(runner::NodeFacts facts, const RequestContext& request)
      : RunContext(std::move(facts)), request_(request) {}

  void metric(std::string_view, double, std::int64_t) override {}
  void progress(const runner::Progress& progress) override { request_.progress(progress); }
  void say(std::string_view line) override { request_.say(line); }
  bool cancelled() const override { return request_.cancelled(); }

 private:
  const RequestContext& request_;
};

}  // namespace

runner::Result<std::shared_ptr<const Checkpoint>> load_network_of_run(const runner::Graph& graph, const std::string& id,
                                                                      const runner::CheckpointSources& trained,
                                                                      std::string_view device,
                                                                      const RequestContext& context) {
  std::vector<runner::Outputs> outputs;  // by node
  for (const runner::Node& node : graph.nodes) {
    try {
      auto stage = runner::create_stage(node, all_kinds());
      if (!stage) return stage.errors();
      runner::Inputs::ByPort inputs;
      for (const runner::Edge& edge : node.inputs) {
        const auto artifact = outputs[edge.from].find(edge.output);
        if (artifact != outputs[edge.from].end()) inputs[edge.input].push_back(artifact->second);
      }
      runner::NodeFacts facts{.seed = node.seed, .recipe_hash = graph.recipe_hash, .device = std::string(device)};
      if (const auto found = trained.find(node.id); found != trained.end()) facts.trained = found->second;
      LoadingContext loading(std::move(facts), context);
      outputs.push_back((*stage)->run(runner::Inputs(std::move(inputs)), loading));
    } catch (const StageError& error) {
      const std::string& stage = error.stage.empty() ? node.pointer : error.stage;
      throw StageError(error.code, error.what()).at(stage + error.option).with_help(error.help);
    }
    if (node.id != id) continue;
    for (const auto& [port, artifact] : outputs.back()) {
      if (artifact->type() == Checkpoint::kType) return std::static_pointer_cast<const Checkpoint>(artifact);
    }
  }
  throw StageError(ErrorCode::kNoCheckpoint, "'" + id + "' has no checkpoint among its outputs");
}

ImageDatasetOptions transform_of(const Checkpoint& checkpoint) {
  const std::string file = checkpoint.file.parent_path().string();
  if (checkpoint.transform.empty()) {
    throw StageError(ErrorCode::kUnknownInput,
                     "the checkpoint '" + file + "' does not say how an image becomes its input")
        .with_help("it was trained on something other than images");
  }
  try {
    return transform_from_json(checkpoint.transform);
  } catch (const std::invalid_argument& error) {
    throw StageError(ErrorCode::kUnknownInput,
                     "the checkpoint '" + file + "' does not say how an image becomes its input: " + error.what())
        .with_help("use one that this version has trained");
  }
}

}  // namespace stages
