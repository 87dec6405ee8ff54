#include "runner/parent/cli/weights_source.h"

#include <algorithm>
#include <filesystem>

#include "runner/parent/cli/prepare.h"
#include "runner/parent/config/secret.h"
#include "runner/shared/protocol/event.h"
#include "runner/parent/record/checkpoint_origin.h"
#include "runner/shared/value/place.h"

namespace runner {

void add_weights_source(Invocation& verb, WeightsSource& source, bool is_required) {
  verb.add({.name = "run",
            .value = &source.run,
            .summary = "The run's folder, as `retort run` printed it",
            .required = is_required});
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
  if (!trained) return trained;
  const bool is_named = std::ranges::any_of(
      *trained, [](const auto& one) { return one.second.choice == CheckpointSource::Choice::kThis; });
  if (Diagnostics errors = foreign_checkpoints(run.folder, graph); !is_named && !errors.empty()) {
    for (Diagnostic& error : errors) error.help = "remove it, or name the one that is meant: --checkpoint FOLDER";
    return errors;
  }
  if (source.weights.empty()) return trained;
  for (auto& [id, weights] : *trained) weights.averaged = source.weights == "averaged";
  return trained;
}

bool is_of_machine(const std::string& override) {
  return override.starts_with("device=") || override.starts_with("device.") || override.starts_with("threads=");
}

namespace {

/// An error for each of `overrides` that can change nothing in what a trained network is asked for by the verb `name`.
Diagnostics without_effect(const std::vector<std::string>& overrides, const Value& recorded, std::string_view name) {
  const bool predicts = name == "predict";
  Diagnostics errors;
  for (const std::string& word : overrides) {
    const Value* was = at_key(recorded, word.substr(0, word.find('=')));
    if ((predicts && is_of_machine(word)) || (was && is_lost_secret(*was))) continue;
    errors.push_back({ErrorCode::kTrainedOption,
                      {},
                      "",
                      "'" + without_secrets(word) + "' has no effect on " + (predicts ? "a prediction" : "an export"),
                      predicts ? "a prediction takes only device=… and threads=…, and there is no file with that name"
                               : "an export takes no override but a secret that the run's record does not hold"});
  }
  return errors;
}

/// Of the secrets that the record does not hold, those that a network needs which is not trained any more.
Diagnostics needed_secrets(const Graph& graph, const std::string& training) {
  Diagnostics lost;
  for (const Node& node : graph.nodes) {
    if (node.id == training) continue;
    const Diagnostics of_node = lost_secrets(node.options, node.pointer);
    lost.insert(lost.end(), of_node.begin(), of_node.end());
  }
  return lost;
}

/// The only node that lets trainings vote; empty where there is none, or several.
std::string ensemble_in(const Graph& graph) {
  std::string found;
  for (const Node& node : graph.nodes) {
    if (node.kind != "evaluate.pairwise_ensemble") continue;
    if (!found.empty()) return "";
    found = node.id;
  }
  return found;
}

}  // namespace

Result<WeightsRequest> weights_request(std::string_view name, const WeightsSource& source,
                                       const std::vector<std::string>& overrides, Sources& sources) {
  const auto run = read_run(source.run);
  if (!run) return run.errors();
  const SchemaSet& schemas = shipped_schemas();
  const auto before = prepare_recorded(run->recipe, {}, schemas, sources);
  if (!before) return before.errors();
  if (auto errors = without_effect(overrides, before->recipe.resolved, name); !errors.empty()) return errors;
  const auto prepared = prepare_recorded(run->recipe, overrides, schemas, sources);
  if (!prepared) return prepared.errors();
  const auto trained = checkpoint_sources(*run, prepared->graph, source);
  if (!trained) return trained.errors();
  const std::string ensemble =
      name == "predict" && source.node.empty() && trained->size() > 1 ? ensemble_in(prepared->graph) : "";
  const auto node = ensemble.empty() ? choose_training(*trained, source.node) : Result<std::string>(ensemble);
  if (!node) return node.errors();
  auto graph = only_without_data(prepared->graph, *node);
  if (!graph) return graph.errors();
  if (auto errors = needed_secrets(*graph, *node); !errors.empty()) return errors;
  const bool is_same_device = keep_machine(*graph, before->graph, *run);
  if (is_same_device) graph->device = run->device;
  return WeightsRequest{{{"protocol", kProtocolVersion},
                         {"request", ensemble.empty() ? name : "predict_ensemble"},
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
  const SecretTexts secrets(recipe);
  for (Diagnostic& error : errors) {
    error = secrets.hidden_in(std::move(error));
    if (!error.pointer.empty()) error.where = place_of(nearest(recipe, error.pointer));
  }
  return errors;
}

}  // namespace runner
