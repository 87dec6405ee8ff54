#include "runner/parent/cli/weights_source.h"

#include <algorithm>
#include <filesystem>
#include <thread>

#include <nlohmann/json.hpp>

#include "runner/parent/cli/command_line.h"
#include "runner/parent/cli/launched.h"
#include "runner/parent/cli/prepare.h"
#include "runner/parent/config/secret.h"
#include "runner/parent/devices/nvml.h"
#include "runner/parent/record/checkpoint_origin.h"
#include "runner/parent/run/chosen_device.h"
#include "runner/shared/protocol/event.h"
#include "runner/shared/record/node_index.h"
#include "runner/shared/value/value.h"

namespace runner {

void add_weights_source(Invocation& verb, WeightsSource& source, bool is_required) {
  verb.add({.name = "run",
            .value = &source.run,
            .summary = "The run's folder, as `retort run` printed it",
            .required = is_required});
  verb.add({.name = "--checkpoint",
            .value = &source.checkpoint,
            .summary =
                "best, latest, or a checkpoint's folder; default: the one that train.keep selects",
            .type = "WHICH"});
  verb.add({.name = "--weights",
            .value = &source.weights,
            .summary = "If the network was trained with train.ema or train.swa: the averaged "
                       "weights, or the weights as trained; default: averaged, or train.ema.result",
            .type = "WHICH",
            .choices = {"averaged", "trained"}});
}

void add_weights_node(Invocation& verb, WeightsSource& source) {
  verb.add({.name = "--node",
            .value = &source.node,
            .summary = "The training node to use, if the run has several",
            .type = "NODE"});
}

Result<CheckpointSources> checkpoint_sources(const RecordedRun& run, const Graph& graph,
                                             const WeightsSource& source) {
  auto trained = find_checkpoint_sources(run, graph, source.checkpoint);
  if (!trained) return trained;
  const bool is_named = std::ranges::any_of(*trained, [](const auto& one) {
    return one.second.choice == CheckpointSource::Choice::kThis;
  });
  if (Diagnostics errors = foreign_checkpoints(run.folder, graph); !is_named && !errors.empty()) {
    for (Diagnostic& error : errors)
      error.help = "remove it, or specify the checkpoint to use: --checkpoint FOLDER";
    return errors;
  }
  if (source.weights.empty()) return trained;
  for (auto& [id, weights] : *trained) weights.averaged = source.weights == "averaged";
  return trained;
}

ImageWords image_words(const std::vector<std::string>& words) {
  ImageWords result;
  for (const std::string& word : words) {
    std::error_code ignored;
    const bool is_path = !is_override(word) || std::filesystem::exists(word, ignored);
    (is_path ? result.paths : result.overrides).push_back(word);
  }
  return result;
}

bool is_of_machine(const std::string& override) {
  return override.starts_with("device=") || override.starts_with("device.") ||
         override.starts_with("threads=");
}

namespace {

/// Returns an error for each of `overrides` that has no effect on the request of the verb `name`.
Diagnostics without_effect(const std::vector<std::string>& overrides, const Value& recorded,
                           std::string_view name) {
  const bool predicts = name == "predict" || name == "embed";
  Diagnostics errors;
  for (const std::string& word : overrides) {
    const Value* was = at_key(recorded, word.substr(0, word.find('=')));
    if ((predicts && is_of_machine(word)) || (was && is_lost_secret(*was))) continue;
    errors.push_back({ErrorCode::kTrainedOption,
                      {},
                      "",
                      "'" + without_secrets(word) + "' has no effect on " +
                          (name == "embed" ? "embeddings"
                           : predicts      ? "a prediction"
                                           : "an export"),
                      predicts ? "the only possible overrides here are device=… and threads=…, and "
                                 "there is no file with this name"
                               : "an export accepts only overrides that give a secret, which the "
                                 "run's record does not contain"});
  }
  return errors;
}

/// Returns errors for secrets that the record does not contain but that nodes other than the
/// training node need.
Diagnostics needed_secrets(const Graph& graph, const std::string& training) {
  Diagnostics lost;
  for (const Node& node : graph.nodes) {
    if (node.id == training) continue;
    const Diagnostics of_node = lost_secrets(node.options, node.pointer);
    lost.insert(lost.end(), of_node.begin(), of_node.end());
  }
  return lost;
}

/// True if the outputs of this training node's network may be something other than class scores,
/// because its loss is Python code and no stage evaluates it as a classifier or by its targets.
bool may_give_numbers(const Graph& graph, const std::string& training) {
  return std::ranges::any_of(graph.nodes,
                             [&](const Node& node) {
                               return node.id == training && node.kind == "train.python";
                             }) &&
         std::ranges::none_of(graph.nodes, [&](const Node& node) {
           return (node.kind == "evaluate.classification" || node.kind == "evaluate.multi_label" ||
                   node.kind == "evaluate.regression") &&
                  std::ranges::any_of(node.inputs, [&](const Edge& edge) {
                    return graph.nodes[edge.from].id == training;
                  });
         });
}

/// Returns the only node in which training nodes vote; empty if there is none, or if there are
/// several.
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
                                       const std::vector<std::string>& overrides,
                                       Sources& sources) {
  const auto run = read_run(source.run);
  if (!run) return run.errors();
  const SchemaSet& schemas = shipped_schemas();
  const auto before = prepare_recorded(run->recipe, {}, schemas, sources);
  if (!before) return before.errors();
  if (auto errors = without_effect(overrides, before->recipe.resolved, name); !errors.empty())
    return errors;
  const auto prepared = prepare_recorded(run->recipe, overrides, schemas, sources);
  if (!prepared) return prepared.errors();
  if (auto errors = refused_ranks(name, before->recipe.resolved, prepared->recipe.resolved);
      !errors.empty())
    return errors;
  const auto trained = checkpoint_sources(*run, prepared->graph, source);
  if (!trained) return trained.errors();
  const std::string ensemble = name == "predict" && source.node.empty() && trained->size() > 1
                                   ? ensemble_in(prepared->graph)
                                   : "";
  const auto node =
      ensemble.empty() ? choose_training(*trained, source.node) : Result<std::string>(ensemble);
  if (!node) return node.errors();
  auto graph = only_without_data(prepared->graph, *node);
  if (!graph) return graph.errors();
  if (auto errors = needed_secrets(*graph, *node); !errors.empty()) return errors;
  const bool is_same_device = keep_machine(*graph, before->graph, *run);
  if (is_same_device) graph->device = run->device;
  nlohmann::ordered_json request = {{"protocol", kProtocolVersion},
                                    {"request", ensemble.empty() ? name : "predict_ensemble"},
                                    {"graph", to_json(*graph)},
                                    {"node", *node},
                                    {"checkpoints", to_json(*trained)}};
  if (name == "predict" && may_give_numbers(prepared->graph, *node)) request["numbers"] = true;
  return WeightsRequest{std::move(request), prepared->recipe.resolved, *graph,
                        is_same_device ? std::optional(*run) : std::nullopt};
}

std::string path_for(const Graph& graph, const std::string& path) {
  return graph.working_folder.empty() ? path
                                      : std::filesystem::absolute(path).lexically_normal().string();
}

Diagnostics placed(Diagnostics errors, const Value& recipe) {
  const SecretTexts secrets(recipe);
  for (Diagnostic& error : errors) {
    error = secrets.hidden_in(std::move(error));
    if (!error.pointer.empty()) error.where = place_of(nearest(recipe, error.pointer));
  }
  return errors;
}

namespace {

DeviceRequest device_request_of(const DeviceUse& use) {
  DeviceRequest request = device_request(use.recipe);
  return use.run ? request_again(std::move(request), *use.run) : request;
}

}  // namespace

DeviceWorld device_world(DeviceSource& source, Console& console, SignalWait* wait) {
  return {.source = source,
          .cuda = RETORT_CUDA_VERSION,
          .say =
              [&console](const std::string& line) {
                if (!console.is_quiet()) console.err << line << std::endl;
              },
          .sleep = [wait](std::chrono::steady_clock::duration time) -> std::optional<int> {
            if (wait) return (*wait)(time);
            std::this_thread::sleep_for(time);
            return std::nullopt;
          }};
}

namespace {

/// Reserves the device that `request` selects. The record in the result reports `asked`, the device
/// selected by the recipe.
Result<OwnDevice> taken_for(const DeviceUse& use, const DeviceRequest& request,
                            const DeviceRequest& asked, Console& console) {
  Nvml nvml;
  SignalWait wait;
  ProgressDisplay display(console.err, standard_error_display(console.verbosity),
                          SecretTexts(use.recipe));
  NeedOf need =
      use.need ? use.need : [](const DeviceFacts&) { return Result<DeviceNeed>(DeviceNeed{}); };
  if (use.reuse) {
    need = needed_by_run({.graph = use.graph,
                          .worker = use.worker,
                          .trained = use.trained,
                          .reuse = *use.reuse,
                          .is_resumed = use.is_resumed,
                          .node_index = node_index_folder()},
                         display);
  }
  const DeviceWorld world = device_world(nvml, console, &wait);
  auto taken = take_device(request, need, world);
  if (!taken) return placed(taken.errors(), use.recipe);
  auto others = take_for_other_ranks(request, *taken, use.ranks, need, world);
  if (!others) return placed(others.errors(), use.recipe);
  nlohmann::ordered_json record = device_record(asked, *taken);
  for (const TakenDevice& other : *others)
    record["of_other_ranks"].push_back(device_record(asked, other));
  return OwnDevice{*std::move(taken), std::move(record), *std::move(others)};
}

}  // namespace

Result<OwnDevice> take_own_device(const DeviceUse& use, Console& console) {
  const DeviceRequest request = device_request_of(use);
  auto own = taken_for(use, request, request, console);
  if (!own) return own;
  use.graph.device = own->taken.select;
  hand_over(own->taken, use.worker);
  return own;
}

NextGpu next_gpu_for(const DeviceUse& use, Console& console) {
  return [use, &console](const std::vector<std::string>& left) -> Result<OwnDevice> {
    DeviceUse rest = use;
    rest.is_resumed = true;  // plan only the rest of the run
    auto own = taken_for(rest, request_for_another(device_request(use.recipe), left),
                         device_request_of(use), console);
    if (own && !own->taken.device)
      return Diagnostic{ErrorCode::kDeviceUnavailable,
                        {},
                        "",
                        "cannot choose another GPU, since only CUDA knows which GPUs exist",
                        ""};
    return own;
  };
}

Result<TakenDevice> use_likely_device(const DeviceUse& use, Console& console) {
  Nvml nvml;
  auto likely = likely_device(device_request_of(use), device_world(nvml, console));
  if (!likely) return placed(likely.errors(), use.recipe);
  use.graph.device = likely->select;
  hand_over(*likely, use.worker);
  return likely;
}

}  // namespace runner
