#include "runner/cli/weights_source.h"

#include <filesystem>

#include "runner/cli/prepare.h"
#include "runner/protocol/event.h"

namespace runner {

void add_weights_source(Invocation& verb, WeightsSource& source) {
  verb.add({.name = "run",
            .value = &source.run,
            .summary = "The run's folder, as `retort run` printed it",
            .required = true});
  verb.add({.name = "--checkpoint",
            .value = &source.checkpoint,
            .summary = "best, latest, or a checkpoint's folder; default: the one that the training keeps",
            .type = "WHICH"});
  verb.add({.name = "--weights",
            .value = &source.weights,
            .summary = "Of a training with train.ema: the average of its weights, or the weights as trained; default: "
                       "what train.ema.result says",
            .type = "WHICH",
            .choices = {"averaged", "trained"}});
}

void add_weights_node(Invocation& verb, WeightsSource& source) {
  verb.add(
      {.name = "--node", .value = &source.node, .summary = "Which training, if the run has several", .type = "NODE"});
}

Result<CheckpointSources> checkpoint_sources(const RecordedRun& run, const Graph& graph, const WeightsSource& source) {
  auto trained = find_checkpoint_sources(run, graph, source.checkpoint);
  if (!trained || source.weights.empty()) return trained;
  for (auto& [id, weights] : *trained) weights.averaged = source.weights == "averaged";
  return trained;
}

Result<WeightsRequest> weights_request(std::string_view name, const WeightsSource& source,
                                       const std::vector<std::string>& overrides, Sources& sources) {
  const auto run = read_run(source.run);
  if (!run) return run.errors();
  const SchemaSet schemas = shipped_schemas();
  const auto before = prepare_recorded(run->recipe, {}, schemas, sources);
  if (!before) return before.errors();
  const auto prepared = prepare_recorded(run->recipe, overrides, schemas, sources);
  if (!prepared) return prepared.errors();
  const auto trained = checkpoint_sources(*run, prepared->graph, source);
  if (!trained) return trained.errors();
  const auto node = choose_training(*trained, source.node);
  if (!node) return node.errors();
  auto graph = only_without_data(prepared->graph, *node);
  if (!graph) return graph.errors();
  if (graph->threads == before->graph.threads) graph->threads = run->threads;
  const bool is_same_device = graph->device == before->graph.device;
  if (is_same_device) graph->device = run->device;
  return WeightsRequest{{{"protocol", kProtocolVersion},
                         {"request", name},
                         {"graph", to_json(*graph)},
                         {"node", *node},
                         {"checkpoints", to_json(*trained)}},
                        prepared->recipe.resolved,
                        *graph,
                        is_same_device ? std::optional(*run) : std::nullopt};
}

std::string path_for(const Graph& graph, const std::string& path) {
  return graph.working_folder.empty() ? path : std::filesystem::absolute(path).lexically_normal().string();
}

Diagnostics placed(Diagnostics errors, const Value& recipe) {
  for (Diagnostic& error : errors) {
    if (!error.pointer.empty()) error.where = nearest(recipe, error.pointer).where;
  }
  return errors;
}

}  // namespace runner
