#include "stages/worker/network_of_run.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/shared/disk/descriptor.h"
#include "runner/shared/stage/stage.h"
#include "runner/shared/value/parse_json.h"
#include "runner/shared/weights/weights_file.h"
#include "runner/worker/create_stage.h"
#include "stages/data/image_transform.h"
#include "stages/data/preprocessor_config.h"
#include "stages/plan/plan_forward.h"
#include "stages/stages.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

/// A context for nodes that only load something: it records no metrics and has no folder.
class LoadingContext final : public runner::RunContext {
 public:
  LoadingContext(runner::NodeFacts facts, const RequestContext& request)
      : RunContext(std::move(facts)), request_(request) {}

  void metric(std::string_view, double, std::int64_t) override {}
  void progress(const runner::Progress& progress) override { request_.progress(progress); }
  void say(std::string_view line) override { request_.say(line); }
  bool canceled() const override { return request_.canceled(); }

 private:
  const RequestContext& request_;
};

/// Returns the outputs of a node; nullopt if they are unknown.
using OutputsOf = std::function<std::optional<runner::Outputs>(
    runner::Stage& stage, runner::Inputs inputs, runner::NodeFacts facts)>;

using CheckpointsByNode = std::map<std::string, std::shared_ptr<const Checkpoint>>;
/// Returns the checkpoints that the nodes of a run output, up to the node `last`, which is included
/// if `runs_last` is true. Returns nullopt if they are unknown.
runner::Result<std::optional<CheckpointsByNode>> checkpoints_of_run(
    const runner::Graph& graph, const std::string& last, bool runs_last,
    const runner::CheckpointSources& trained, std::string_view device,
    const OutputsOf& outputs_of) {
  std::vector<runner::Outputs> outputs;  // by node
  CheckpointsByNode checkpoints;
  for (const runner::Node& node : graph.nodes) {
    if (!runs_last && node.id == last) break;
    try {
      auto stage = runner::create_stage(node, all_kinds());
      if (!stage) return stage.errors();
      runner::Inputs::ByPort inputs;
      for (const runner::Edge& edge : node.inputs) {
        const auto artifact = outputs[edge.from].find(edge.output);
        if (artifact != outputs[edge.from].end()) inputs[edge.input].push_back(artifact->second);
      }
      runner::NodeFacts facts{
          .seed = node.seed, .recipe_hash = graph.recipe_hash, .device = std::string(device)};
      if (const auto found = trained.find(node.id); found != trained.end())
        facts.trained = found->second;
      auto put_out = outputs_of(**stage, runner::Inputs(std::move(inputs)), std::move(facts));
      if (!put_out) return std::optional<CheckpointsByNode>();
      outputs.push_back(*std::move(put_out));
    } catch (const StageError& error) {
      const std::string& stage = error.stage.empty() ? node.pointer : error.stage;
      throw StageError(error.code, error.what()).at(stage + error.option).with_help(error.help);
    }
    for (const auto& [port, artifact] : outputs.back()) {
      if (artifact->type() == Checkpoint::kType)
        checkpoints[node.id] = std::static_pointer_cast<const Checkpoint>(artifact);
    }
    if (node.id == last) break;
  }
  return std::optional(std::move(checkpoints));
}

runner::Result<std::shared_ptr<const Checkpoint>> checkpoint_of_run(
    const runner::Graph& graph, const std::string& id, const runner::CheckpointSources& trained,
    std::string_view device, const OutputsOf& outputs_of) {
  auto checkpoints = checkpoints_of_run(graph, id, /*runs_last=*/true, trained, device, outputs_of);
  if (!checkpoints) return checkpoints.errors();
  if (!*checkpoints) return std::shared_ptr<const Checkpoint>();
  const auto found = (*checkpoints)->find(id);
  if (found != (*checkpoints)->end()) return found->second;
  throw StageError(ErrorCode::kNoCheckpoint, "'" + id + "' has no checkpoint among its outputs");
}

/// Returns a function that runs a stage as part of a request and returns its outputs.
OutputsOf running(const RequestContext& context) {
  return [&context](runner::Stage& stage, const runner::Inputs& inputs, runner::NodeFacts facts) {
    LoadingContext loading(std::move(facts), context);
    return std::optional(stage.run(inputs, loading));
  };
}

/// Returns the outputs that a stage would have, from its dry run.
std::optional<runner::Outputs> planned_outputs(runner::Stage& stage, const runner::Inputs& inputs,
                                               runner::NodeFacts facts) {
  UnseenPlan unseen(std::move(facts));
  auto planned = stage.plan(inputs, unseen);
  // A stage without a dry run computes nothing: it only outputs a policy or a model description.
  return planned ? std::move(planned) : std::optional(stage.run(inputs, unseen));
}

}  // namespace

runner::Result<std::shared_ptr<const Checkpoint>> load_network_of_run(
    const runner::Graph& graph, const std::string& id, const runner::CheckpointSources& trained,
    std::string_view device, const RequestContext& context) {
  auto checkpoint = checkpoint_of_run(graph, id, trained, device, running(context));
  if (!checkpoint || !*checkpoint || (*checkpoint)->network) return checkpoint;
  auto opened = std::make_shared<Checkpoint>(**checkpoint);
  opened->network = opened->load();
  return std::shared_ptr<const Checkpoint>(std::move(opened));
}

runner::Result<std::shared_ptr<const Checkpoint>> outline_network_of_run(
    const runner::Graph& graph, const std::string& id, const runner::CheckpointSources& trained,
    std::string_view device, const RequestContext& /*context*/) {
  return checkpoint_of_run(graph, id, trained, device, planned_outputs);
}

runner::Result<std::vector<NodeNetwork>> networks_wired_to(
    const runner::Graph& graph, const std::string& id, const runner::CheckpointSources& trained,
    std::string_view device, bool are_outlines, const RequestContext& context) {
  auto checkpoints =
      checkpoints_of_run(graph, id, /*runs_last=*/false, trained, device,
                         are_outlines ? OutputsOf(planned_outputs) : running(context));
  if (!checkpoints) return checkpoints.errors();
  std::vector<NodeNetwork> networks;
  if (!*checkpoints) return networks;
  const auto node = std::ranges::find(graph.nodes, id, &runner::Node::id);
  if (node == graph.nodes.end()) throw std::runtime_error("the graph has no node '" + id + "'");
  for (const runner::Edge& edge : node->inputs) {
    const auto found = (*checkpoints)->find(graph.nodes[edge.from].id);
    if (edge.input == "checkpoint" && found != (*checkpoints)->end())
      networks.push_back({&graph.nodes[edge.from], found->second});
  }
  return networks;
}

namespace {

/// Returns the preprocessing defined by the preprocessor_config.json next to `weights`.
ImageDatasetOptions preprocessing_next_to(const std::filesystem::path& weights) {
  const std::filesystem::path file = weights.parent_path() / "preprocessor_config.json";
  std::ifstream stream = runner::open_regular(file);
  const auto config = runner::parse_json<nlohmann::json>(stream);
  try {
    return options_of_preprocessor(config);
  } catch (const std::invalid_argument& why) {
    throw StageError(ErrorCode::kOptionConflict,
                     "'" + file.string() + "' cannot be used: " + why.what())
        .with_help("use a model that prepares images like CLIP");
  }
}

}  // namespace

runner::Result<std::shared_ptr<const Checkpoint>> network_of_model(
    const runner::Graph& graph, const std::string& id, const std::string& reference,
    std::string_view device, bool is_outline, const RequestContext& context) {
  const auto node = std::ranges::find(graph.nodes, id, &runner::Node::id);
  if (node == graph.nodes.end()) throw std::runtime_error("the graph has no node '" + id + "'");
  auto stage = runner::create_stage(*node, all_kinds());
  if (!stage) return stage.errors();
  const ImageDatasetOptions transform = preprocessing_next_to(runner::find_weights(reference));
  LoadingContext loading(
      {.seed = node->seed, .recipe_hash = graph.recipe_hash, .device = std::string(device)},
      context);
  runner::Outputs outputs = (*stage)->run(runner::Inputs({}), loading);
  const auto checkpoint = std::make_shared<Checkpoint>();
  checkpoint->model = std::dynamic_pointer_cast<const Model>(outputs.at("model"));
  checkpoint->model_stage = id;
  checkpoint->inputs = {{"image", {3, transform.image_size, transform.image_size}, at::kFloat}};
  checkpoint->transform = transform_json(transform);
  const DatasetDescription data{.tensors = checkpoint->inputs};
  checkpoint->network =
      is_outline ? checkpoint->model->outline(data) : checkpoint->model->build(data, node->seed);
  checkpoint->network->eval();
  return std::shared_ptr<const Checkpoint>(checkpoint);
}

ImageDatasetOptions transform_of(const Checkpoint& checkpoint) {
  const std::string file = checkpoint.file.parent_path().string();
  if (checkpoint.transform.empty()) {
    throw StageError(
        ErrorCode::kUnknownInput,
        "the checkpoint '" + file + "' does not describe how an image becomes its input")
        .with_help(
            "it was trained on data that creates its own samples, such as data.python; `retort "
            "evaluate` can evaluate it on such data");
  }
  try {
    return transform_from_json(checkpoint.transform, all_image_subjects());
  } catch (const std::invalid_argument& error) {
    throw StageError(ErrorCode::kUnknownInput,
                     "the checkpoint '" + file +
                         "' does not describe how an image becomes its input: " + error.what())
        .with_help("use a checkpoint saved by this version of Retort");
  }
}

}  // namespace stages
