#include "runner/parent/cli/rerun.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "runner/parent/cli/graph_worker.h"
#include "runner/parent/cli/launched.h"
#include "runner/parent/cli/prepare.h"
#include "runner/parent/cli/reserved_keys.h"
#include "runner/parent/cli/sweep_check.h"
#include "runner/parent/cli/weights_source.h"
#include "runner/parent/config/provenance.h"
#include "runner/parent/record/input_record.h"
#include "runner/shared/disk/file_digests.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/value/parse_json.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;
using Weight = RecordChange::Weight;

/// Returns a file of a run's record as JSON; null if it cannot be read.
Json read_record(const std::filesystem::path& file) {
  const auto text = real_file_system().read(file, 64 << 20);
  Json json = text ? parse_json<Json>(*text) : Json();
  return json.is_discarded() ? Json() : json;
}

/// True if the run was resumed with a recipe other than the one it started with.
bool was_changed(const RecordedRun& run) {
  const auto text = [](const std::filesystem::path& file) {
    return real_file_system().read(file, 64 << 20);
  };
  return text(RunLayout(run.folder).records() / RunRecord::kRecipe) != text(run.recipe);
}

/// Returns the part of `graph` that was run, which is smaller after `run --only`.
Result<Graph> recorded_part(Graph graph, const Json& record) {
  if (!record.is_object() || !record.contains("nodes") || !record["nodes"].is_array()) return graph;
  const auto is_recorded = [&](const Node& node) {
    return std::ranges::any_of(record["nodes"], [&](const Json& one) {
      return one.is_object() && one.value("id", Json()) == node.id;
    });
  };
  const auto count = static_cast<std::size_t>(std::ranges::count_if(graph.nodes, is_recorded));
  if (count == graph.nodes.size() || count == 0) return graph;
  for (const Node& node : graph.nodes) {
    auto part = only(graph, node.id);
    if (part && part->nodes.size() == count && std::ranges::all_of(part->nodes, is_recorded))
      return part;
  }
  return graph;
}

/// True if the changed key affects neither what is run nor how it is run.
bool is_about_place(const Difference& change) {
  return change.path.front() == "name" || change.path.front() == "run";
}

Diagnostic not_a_run_of_its_own(const RecordedRun& run) {
  return {ErrorCode::kNoRun,
          {},
          "",
          "'" + run.folder.string() + "' is an evaluation of '" + run.source +
              "': it has no training to repeat",
          "evaluate it again with `retort evaluate " + run.source + "`"};
}

}  // namespace

void add_rerun(Invocation& verb, RerunFlags& flags) {
  verb.add({.name = "--force",
            .value = &flags.force,
            .summary = "rerun, reproduce: run even if input files or versions of stage kinds "
                       "differ from the record"});
  verb.add({.name = "--strict",
            .value = &flags.strict,
            .summary = "rerun, reproduce: reject Python code that can be planned only by running "
                       "real steps"});
  add_log_level(verb, flags.log, LogPlace::kFile);
  add_grace(verb, flags.log);
}

/// `recipe` is the recipe of the new run, and `old_recipe` is the recorded one.
Diagnostics Rerun::look_for_changes(const Json& environment, const Graph& graph,
                                    const Value& old_recipe, const Value& recipe) {
  changes_ = changes_since_record(run_, environment, graph, old_recipe, recipe);
  if (was_changed(run_)) {
    changes_.push_back({Weight::kWhole, "recipe",
                        "the run was resumed with options different from the original ones: its "
                        "result depends on both, but the new run uses only the later ones",
                        ""});
  }
  return reported_changes(changes_, run_, environment, flags_.force);
}

ExitCode Rerun::operator()(Console& console, OnEnd on_end) {
  if (!run_.source.empty()) return report(console, {not_a_run_of_its_own(run_)});
  if (const auto errors = refused_under_launcher(
          "runs rerun", "start it without the launcher; device.count sets the number of ranks");
      !errors.empty())
    return report(console, errors);
  const SchemaSet& schemas = shipped_schemas();
  const auto before = prepare_recorded(run_.recipe, {}, schemas, console.sources);
  if (!before) return report(console, before.errors());
  auto prepared = prepare_recorded(run_.recipe, flags_.overrides, schemas, console.sources);
  if (!prepared) return report(console, prepared.errors());
  if (const auto errors = sweep_keys_of_single_run(prepared->composition); !errors.empty())
    return report(console, errors);
  if (!prepared->broken_rules.empty()) {
    Diagnostics errors = prepared->broken_rules;
    for (Diagnostic& error : errors)
      error.notes.push_back({{},
                             "the run is from a version of Retort without this rule; you can "
                             "change the option with an override"});
    return report(console, errors);
  }
  const Value& recipe = prepared->recipe.resolved;
  auto part =
      recorded_part(prepared->graph, read_record(run_.recipe.parent_path() / RunRecord::kGraph));
  if (!part) return report(console, part.errors());
  Graph graph = *std::move(part);
  if (const Diagnostics errors = refused_hooks(recipe, prepared->composition); !errors.empty())
    return report(console, errors);
  auto worker = worker_for(graph, recipe, schemas, flags_.log);
  if (!worker) return report(console, worker.errors());
  warn(console, prepared->composition.warnings);

  const bool is_same_device = keep_machine(graph, before->graph, run_);
  const DeviceUse use{.recipe = recipe,
                      .graph = graph,
                      .worker = *worker,
                      .run = is_same_device ? &run_ : nullptr,
                      .reuse = flags_.reuse,
                      .ranks = graph.ranks};
  auto device = take_own_device(use, console);
  if (!device) return report(console, device.errors());
  const RunRequest request{
      .composition = prepared->composition,
      .recipe = prepared->recipe,
      .graph = graph,
      .sources = console.sources,
      .smoke = run_.smoke,
      .strict = flags_.strict,
      .reuse = flags_.reuse,
      .device = &*device,
      .inputs = input_paths(recipe, schemas, graph.working_folder),
      .plans = std::ranges::all_of(differences(before->recipe.resolved, recipe), is_about_place)
                   ? run_.folder
                   : std::filesystem::path(),
      .divisions = run_.folder,
      .accepts_changes = flags_.force,
      .check_environment = [&](const Json& environment) {
        return look_for_changes(environment, graph, before->recipe.resolved, recipe);
      }};
  RunSurroundings here = surroundings(console, *worker, next_gpu_for(use, console));
  if (on_end) here.on_end = std::move(on_end);
  return run(request, here);
}

}  // namespace runner
