#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>

#include <nlohmann/json.hpp>

#include "runner/parent/cli/command.h"
#include "runner/parent/cli/graph_worker.h"
#include "runner/parent/cli/launched.h"
#include "runner/parent/cli/prepare.h"
#include "runner/parent/cli/reserved_keys.h"
#include "runner/parent/cli/sweep_check.h"
#include "runner/parent/cli/weights_source.h"
#include "runner/parent/record/checkpoint_origin.h"
#include "runner/parent/run/recipe_change.h"
#include "runner/parent/run/run.h"
#include "runner/parent/schema/schema_node.h"
#include "runner/parent/sweep/sweep_tensorboard.h"
#include "runner/shared/record/node_index.h"
#include "runner/shared/record/recorded_run.h"
#include "runner/shared/stage/checkpoint_files.h"
#include "runner/shared/stage/family.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/text/printable.h"
#include "runner/shared/value/parse_json.h"

#include "runner/shared/disk/descriptor.h"

namespace runner {
namespace {

struct ResumeFlags {
  std::string run;
  std::vector<std::string> overrides;
  std::int64_t ranks = 0;
  ReuseFlags reuse;
  LogFlags log;
  bool force = false;  ///< accept changes; the result then matches neither recipe
  bool strict = false;
};

/// Returns the summary of a finished run, with its folder.
nlohmann::ordered_json summary_of(const RecordedRun& run) {
  std::ifstream file = open_regular(RunLayout(run.folder).summary());
  auto summary = parse_json(file);
  if (!summary.is_object()) summary = nlohmann::ordered_json::object();  // the file is damaged
  summary["folder"] = run.folder.string();
  return summary;
}

/// True if all node files of a finished run still exist.
bool is_whole(const RecordedRun& run) {
  return std::ranges::all_of(run.finished, [&](const std::string& node) {
    const auto folder = RunLayout(run.folder).node(node).folder();
    const auto finished = read_finished(folder);
    return finished && !what_is_missing(folder, *finished);
  });
}

/// Adds a note to `errors` explaining why a run that was already started can break a rule.
Diagnostics broken_by_record(Diagnostics errors) {
  for (Diagnostic& error : errors)
    error.notes.push_back({{},
                           "the run was started by a version of Retort without this rule; you can "
                           "change the option with an override"});
  return errors;
}

/// Returns errors or, with `force`, warnings for files in the run's folder that were not written by
/// the run.
Diagnostics put_there(const RecordedRun& run, const Graph& graph, bool force) {
  Diagnostics found = foreign_checkpoints(run.folder, graph);
  for (Diagnostic& one : found)
    one.help = force ? "the run continues from it"
                     : "remove it, or use --force, in which case the run continues from it";
  if (is_recipe_edited(run)) {
    found.push_back({ErrorCode::kChangedRun,
                     {},
                     "",
                     edited_recipe_text(run),
                     force ? "the result matches neither the old nor the new recipe"
                           : "restore the recipe and pass your changes on the command line as "
                             "key=value, or use --force, in which case the result matches neither "
                             "the old nor the new recipe"});
  }
  for (Diagnostic& one : found) one.severity = force ? Severity::kWarning : Severity::kError;
  return found;
}

/// True if `change` can no longer affect the run, because it concerns only the starting points of
/// training nodes and all of them have saved a checkpoint. Changed Python code always affects the
/// run.
bool is_behind(const RecordChange& change, const Graph& graph, const RecordedRun& run) {
  if (graph.python.has_entry(change.pointer)) return false;
  const auto begins_from_it = [&](const Node& node) {
    return family_of(node.kind) == Family::kTrain && change.pointer.starts_with(node.pointer + "/");
  };
  return std::ranges::any_of(graph.nodes, begins_from_it) &&
         std::ranges::all_of(graph.nodes, [&](const Node& node) {
           return !begins_from_it(node) ||
                  !list_checkpoints(RunLayout(run.folder).node(node.id).checkpoints()).empty();
         });
}

ExitCode resume(const ResumeFlags& flags, Console& console) {
  const auto run = read_run(flags.run);
  if (!run) return report(console, run.errors());
  if (!run->source.empty()) {
    return report(console, {{ErrorCode::kNoRun,
                             {},
                             "",
                             "'" + flags.run + "' is an evaluation of '" + run->source +
                                 "': there is no training to continue",
                             "evaluate it again with `retort evaluate " + run->source + "`"}});
  }
  const auto launched = launched_rank();
  if (!launched) return report(console, launched.errors());
  quieten_other_ranks(*launched, console);
  Sources& sources = console.sources;
  const SchemaSet& schemas = shipped_schemas();
  const auto before = prepare_recorded(run->recipe, {}, schemas, sources);
  if (!before) return report(console, before.errors());
  auto prepared =
      prepare_recorded_launched(*launched, run->recipe, flags.overrides, schemas, sources);
  if (!prepared) return report(console, prepared.errors());
  Diagnostics unused = run_keys_of_resumed_run(prepared->composition);
  std::ranges::move(sweep_keys_of_single_run(prepared->composition), std::back_inserter(unused));
  if (!unused.empty()) return report(console, unused);
  const Value &old_recipe = before->recipe.resolved, &new_recipe = prepared->recipe.resolved;
  const Diagnostics found = put_there(*run, prepared->graph, flags.force);
  if (!flags.force && !found.empty()) return report(console, found);
  warn(console, found);
  if (const Diagnostics errors = check_change(old_recipe, new_recipe, flags.force, schemas);
      !errors.empty())
    return report(console, errors);
  if (run->status == "finished" && same_data(old_recipe, new_recipe) && is_whole(*run)) {
    if (console.verbosity != Verbosity::kQuiet)
      console.err << "the run has finished: there is nothing to resume\n";
    if (console.json) print_run(console, summary_of(*run));
    else console.out << printable(run->folder.string()) << '\n';
    return ExitCode::kDone;
  }
  if (!prepared->broken_rules.empty())
    return report(console, broken_by_record(prepared->broken_rules));
  if (const Diagnostics errors = refused_hooks(new_recipe, prepared->composition); !errors.empty())
    return report(console, errors);
  auto worker = worker_for(prepared->graph, new_recipe, schemas, flags.log);
  if (!worker) return report(console, worker.errors());
  warn(console, prepared->composition.warnings);

  // The device and the threads affect the last digits of results, so `auto` must resolve to the
  // recorded values again.
  Graph& graph = prepared->graph;
  const bool is_same_device = keep_machine(graph, before->graph, *run);
  const DeviceUse use{.recipe = new_recipe,
                      .graph = graph,
                      .worker = *worker,
                      .run = is_same_device ? &*run : nullptr,
                      .is_resumed = true,
                      .reuse = flags.reuse.which(),
                      .ranks = *launched ? 1 : graph.ranks};
  auto device = take_own_device(use, console);
  if (!device) return report(console, device.errors());
  const RunRequest request{
      .composition = prepared->composition,
      .recipe = prepared->recipe,
      .graph = prepared->graph,
      .sources = sources,
      .smoke = run->smoke,
      .strict = flags.strict,
      .resume = run->folder,
      .reuse = flags.reuse.which(),
      .device = &*device,
      .inputs = input_paths(new_recipe, schemas, prepared->graph.working_folder),
      .hparams = prepared->recipe.has_tensorboard ? hparams_of_trial(run->folder) : Hparams(),
      .accepts_changes = flags.force,
      .launched = *launched,
      .check_environment = [&](const nlohmann::ordered_json& environment) {
        auto changes = changes_since_record(*run, environment, graph, old_recipe, new_recipe);
        std::erase_if(changes,
                      [&](const RecordChange& change) { return is_behind(change, graph, *run); });
        return reported_changes(changes, *run, environment, flags.force);
      }};
  return runner::run(request, surroundings(console, *worker, next_gpu_for(use, console)));
}

Invocation declare_resume() {
  const auto flags = std::make_shared<ResumeFlags>();
  Invocation verb;
  verb.add({.name = "run",
            .value = &flags->run,
            .summary = "The run's folder, as `retort run` printed it",
            .required = true});
  verb.add({.name = "overrides",
            .value = &flags->overrides,
            .summary = "key=value: options to change for the rest of the run"});
  verb.overrides = &flags->overrides;
  add_ranks(verb, "--devices", flags->ranks);
  add_reuse(verb, flags->reuse);
  add_log_level(verb, flags->log, LogPlace::kFile);
  add_grace(verb, flags->log);
  verb.add({.name = "--force",
            .value = &flags->force,
            .summary = "Continue even if options, input files, versions of stage kinds or the "
                       "record have changed, or checkpoints belong to another run; the result then "
                       "matches neither the old nor the new recipe"});
  add_strict(verb, flags->strict);
  verb.run = [flags](Console& console) { return resume(*flags, console); };
  return verb;
}

}  // namespace

const Command kResumeCommand = {"resume",
                                "Continues a run that was stopped or killed; the result is the "
                                "same as if it had not been interrupted.",
                                "retort resume outputs/2026-01-31/12-00-00", declare_resume};

}  // namespace runner
