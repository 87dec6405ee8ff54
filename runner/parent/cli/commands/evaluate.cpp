#include "runner/parent/cli/commands/evaluate.h"
#include "runner/parent/cli/graph_worker.h"
#include "runner/parent/cli/weights_source.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <system_error>

#include <nlohmann/json.hpp>

#include "runner/parent/cli/command.h"
#include "runner/parent/cli/launched.h"
#include "runner/parent/cli/prepare.h"
#include "runner/parent/cli/reserved_keys.h"
#include "runner/parent/cli/sweep_check.h"
#include "runner/parent/run/recipe_change.h"
#include "runner/parent/run/run.h"
#include "runner/shared/record/recorded_run.h"
#include "runner/shared/stage/family.h"

namespace runner {
namespace {

namespace fs = std::filesystem;

constexpr std::array kPartFolders = {"train", "validation", "test"};

const std::string* root_of(const Value* stage) {
  const Value* root = stage ? stage->find("root") : nullptr;
  return root ? root->reveal() : nullptr;
}

bool is_same_folder(const fs::path& a, const fs::path& b) {
  std::error_code error;
  return a.lexically_normal() == b.lexically_normal() || fs::equivalent(a, b, error);
}

std::string option_text(const Value& stage, const char* key) {
  const Value* const value = stage.find(key);
  return value && value->text() ? *value->text() : "";
}

/// True if subfolders of `root` determine how this stage's data is split. Not all kinds and layouts
/// use such folders: in EyePACS, the folder "train" contains the images.
bool is_divided_by_folders(const Value& stage, const fs::path& root) {
  const std::string kind = option_text(stage, "kind"), layout = option_text(stage, "layout");
  if (kind != "data.image_folder" && !(kind == "data.fundus" && layout == "class_folders"))
    return false;
  return std::ranges::any_of(kPartFolders, [&](const char* part) {
    std::error_code error;
    return fs::is_directory(root / part, error);
  });
}

/// True if one of `overrides` sets the value or any value below it.
bool is_written(const Value& value, std::span<const std::string> overrides) {
  if (value.where.source &&
      std::ranges::find(overrides, value.where.source->contents) != overrides.end())
    return true;
  if (!value.map()) return false;
  return std::ranges::any_of(
      *value.map(), [&](const Entry& entry) { return is_written(entry.value, overrides); });
}

}  // namespace

EvaluatedData data_to_evaluate(const Value& before, const Value& after,
                               std::span<const std::string> written,
                               const fs::path& working_folder) {
  EvaluatedData result;
  for (const auto& [key, where, stage, type] : *after.map()) {
    const Value* split = stage.find("split");
    const std::string* root = root_of(&stage);
    if (!split || !split->find("test") || !root) continue;
    const std::string* trained_on = root_of(before.find(key));
    const std::string in_quotes = "'" + option_text(stage, "root") + "'";
    if (is_divided_by_folders(stage, working_folder / *root)) {
      result.lines.push_back(key + ": the folder 'test' of " + in_quotes + " is evaluated");
    } else if (const std::string column = option_text(stage, "part"); !column.empty()) {
      result.lines.push_back(key + ": the images that the column '" + column + "' of '" +
                             option_text(stage, "table") +
                             "' assigns to the test part are evaluated");
    } else if ((trained_on &&
                is_same_folder(working_folder / *trained_on, working_folder / *root)) ||
               is_written(*split, written)) {
      result.lines.push_back(key + ": the test part of " + in_quotes + " is evaluated: " + key +
                             ".split.test=" + describe(nearest(*split, "/test")));
    } else {
      const std::string all = key + ".split={train: 0, validation: 0, test: 1}";
      result.lines.push_back(key + ": all of " + in_quotes +
                             " is evaluated, since the training run used another folder: " + all +
                             "; to evaluate only a fraction of it, set " + key + ".split.test");
      result.overrides.push_back(all);
      if (const Value* const folds = stage.find("folds"); folds && folds->map())
        result.overrides.push_back(key + ".folds=null");
    }
  }
  return result;
}

namespace {

struct EvaluateFlags {
  WeightsSource weights;
  ReuseFlags reuse;
  LogFlags log;
  std::vector<std::string> overrides;
  bool force = false;  ///< evaluate even if the data or the record has changed
  bool strict = false;
};

/// True if `change` can affect an evaluation. A change that affects only the last digits of
/// training results cannot, nor can a change to the input of any stage but a data stage.
bool bears_on_evaluation(const RecordChange& change, const Graph& graph) {
  if (change.weight != RecordChange::Weight::kWhole) return false;
  if (change.pointer.empty() || graph.python.has_entry(change.pointer)) return true;
  return std::ranges::any_of(graph.nodes, [&](const Node& node) {
    const bool is_of_node =
        change.pointer == node.pointer || change.pointer.starts_with(node.pointer + "/");
    return is_of_node && (change.pointer == node.pointer || family_of(node.kind) == Family::kData);
  });
}

ExitCode evaluate(const EvaluateFlags& flags, Console& console) {
  const auto run = read_run(flags.weights.run);
  if (!run) return report(console, run.errors());
  Sources& sources = console.sources;
  const SchemaSet& schemas = shipped_schemas();
  const auto before = prepare_recorded(run->recipe, {}, schemas, sources);
  if (!before) return report(console, before.errors());
  auto prepared = prepare_recorded(run->recipe, flags.overrides, schemas, sources);
  if (!prepared) return report(console, prepared.errors());
  if (const auto errors = sweep_keys_of_single_run(prepared->composition); !errors.empty())
    return report(console, errors);
  if (const Diagnostics errors =
          check_change_of_trained(before->recipe.resolved, prepared->recipe.resolved);
      !errors.empty())
    return report(console, errors);
  if (const auto errors =
          refused_ranks("evaluate", before->recipe.resolved, prepared->recipe.resolved);
      !errors.empty())
    return report(console, errors);
  std::vector<std::string> overrides = flags.overrides;
  const EvaluatedData data = data_to_evaluate(before->recipe.resolved, prepared->recipe.resolved,
                                              overrides, prepared->graph.working_folder);
  if (!data.overrides.empty()) {
    overrides.insert(overrides.end(), data.overrides.begin(), data.overrides.end());
    prepared = prepare_recorded(run->recipe, overrides, schemas, sources);
    if (!prepared) return report(console, prepared.errors());
  }
  Graph& graph = prepared->graph;
  auto trained = checkpoint_sources(*run, graph, flags.weights);
  if (!trained) return report(console, trained.errors());
  auto worker = worker_for(graph, prepared->recipe.resolved, schemas, flags.log);
  if (!worker) return report(console, worker.errors());
  warn(console, prepared->composition.warnings);
  if (!console.is_quiet()) {
    for (const std::string& line : data.lines) console.err << line << '\n';
  }

  const bool is_same_device = keep_machine(graph, before->graph, *run);
  const DeviceUse use{.recipe = prepared->recipe.resolved,
                      .graph = graph,
                      .worker = *worker,
                      .run = is_same_device ? &*run : nullptr,
                      .trained = *trained,
                      .reuse = flags.reuse.which()};
  auto device = take_own_device(use, console);
  if (!device) return report(console, device.errors());
  const RunRequest request{
      .composition = prepared->composition,
      .recipe = prepared->recipe,
      .graph = graph,
      .sources = sources,
      .strict = flags.strict,
      .trained = *std::move(trained),
      .source = run->folder,
      .reuse = flags.reuse.which(),
      .device = &*device,
      .inputs = input_paths(prepared->recipe.resolved, schemas, graph.working_folder),
      .divisions = run->folder,
      .accepts_changes = flags.force,
      .check_environment = [&](const nlohmann::ordered_json& environment) {
        auto changes = changes_since_record(*run, environment, graph, before->recipe.resolved,
                                            prepared->recipe.resolved);
        std::erase_if(changes, [&](const RecordChange& change) {
          return !bears_on_evaluation(change, graph);
        });
        return reported_changes(changes, *run, environment, flags.force);
      }};
  return runner::run(request, surroundings(console, *worker, next_gpu_for(use, console)));
}

Invocation declare_evaluate() {
  const auto flags = std::make_shared<EvaluateFlags>();
  Invocation verb;
  verb.is_single = true;
  add_weights_source(verb, flags->weights);
  add_reuse(verb, flags->reuse);
  add_log_level(verb, flags->log, LogPlace::kFile);
  add_grace(verb, flags->log);
  verb.add({.name = "overrides",
            .value = &flags->overrides,
            .summary = "key=value: other data, evaluation options, the device, or run.dir"});
  verb.add(
      {.name = "--force",
       .value = &flags->force,
       .summary =
           "Evaluate even if input files, versions of stage kinds or the record have changed"});
  add_strict(verb, flags->strict);
  verb.run = [flags](Console& console) { return evaluate(*flags, console); };
  return verb;
}

}  // namespace

const Command kEvaluateCommand = {
    "evaluate", "Evaluates a run's trained network on other data or with other metrics.",
    "retort evaluate outputs/2026-01-31/12-00-00 data.root=photos2 evaluate.top_k=[1,5]",
    declare_evaluate};

}  // namespace runner
