#include <algorithm>
#include <fstream>
#include <memory>

#include <nlohmann/json.hpp>

#include "runner/cli/command.h"
#include "runner/cli/device_choice.h"
#include "runner/cli/shared_flags.h"
#include "runner/cli/prepare.h"
#include "runner/record/finished_node.h"
#include "runner/run/recipe_change.h"
#include "runner/record/recorded_run.h"
#include "runner/run/run.h"
#include "runner/schema/schema_node.h"
#include "runner/stage/run_layout.h"

namespace runner {
namespace {

struct ResumeFlags {
  std::string run;
  std::vector<std::string> overrides;
  ReuseFlags reuse;
  LogFlags log;
  bool force = false;  ///< take changes that make the result neither recipe's
};

/// The summary of a run that has finished, and its folder.
nlohmann::ordered_json summary_of(const RecordedRun& run) {
  std::ifstream file(RunLayout(run.folder).summary());
  auto summary = nlohmann::ordered_json::parse(file);
  summary["folder"] = run.folder.string();
  return summary;
}

/// Is everything there that the nodes of a finished run have left?
bool is_whole(const RecordedRun& run) {
  return std::ranges::all_of(run.finished, [&](const std::string& node) {
    const auto folder = RunLayout(run.folder).node(node).folder();
    const auto finished = read_finished(folder);
    return finished && !what_is_missing(folder, *finished);
  });
}

/// `errors` with what makes them possible in a run that was begun.
Diagnostics broken_by_record(Diagnostics errors) {
  for (Diagnostic& error : errors)
    error.notes.push_back({{}, "the run was begun by a version without this rule; an override may change the option"});
  return errors;
}

ExitCode resume(const ResumeFlags& flags, Console& console) {
  const auto run = read_run(flags.run);
  if (!run) return report(console, run.errors());
  if (!run->source.empty()) {
    return report(console,
                  {{ErrorCode::kNoRun,
                    {},
                    "",
                    "'" + flags.run + "' is an evaluation of '" + run->source + "': there is no training to continue",
                    "evaluate it again with `retort evaluate " + run->source + "`"}});
  }
  Sources& sources = console.sources;
  const SchemaSet& schemas = shipped_schemas();
  const auto before = prepare_recorded(run->recipe, {}, schemas, sources);
  if (!before) return report(console, before.errors());
  auto prepared = prepare_recorded(run->recipe, flags.overrides, schemas, sources);
  if (!prepared) return report(console, prepared.errors());
  const Value &old_recipe = before->recipe.resolved, &new_recipe = prepared->recipe.resolved;
  if (const Diagnostics errors = check_change(old_recipe, new_recipe, flags.force, schemas); !errors.empty())
    return report(console, errors);
  if (run->status == "finished" && same_data(old_recipe, new_recipe) && is_whole(*run)) {
    if (console.verbosity != Verbosity::kQuiet) console.err << "the run has finished: there is nothing to resume\n";
    if (console.json) print_run(console, summary_of(*run));
    else console.out << run->folder.string() << '\n';
    return ExitCode::kDone;
  }
  if (!prepared->broken_rules.empty()) return report(console, broken_by_record(prepared->broken_rules));
  auto worker = flags.log.worker();
  if (!worker) return report(console, worker.errors());
  warn(console, prepared->composition.warnings);

  // Both are part of the bits: what `auto` came to then, it comes to again.
  Graph& graph = prepared->graph;
  const bool is_same_device = keep_machine(graph, before->graph, *run);
  const DeviceUse use{.recipe = new_recipe,
                      .graph = graph,
                      .worker = *worker,
                      .run = is_same_device ? &*run : nullptr,
                      .is_resumed = true,
                      .reuse = flags.reuse.which()};
  auto device = take_own_device(use, console);
  if (!device) return report(console, device.errors());
  const RunRequest request{.composition = prepared->composition,
                           .recipe = prepared->recipe,
                           .graph = prepared->graph,
                           .sources = sources,
                           .smoke = run->smoke,
                           .resume = run->folder,
                           .reuse = flags.reuse.which(),
                           .device = &*device,
                           .inputs = input_paths(new_recipe, schemas, prepared->graph.working_folder),
                           .accepts_changes = flags.force};
  return runner::run(request, surroundings(console, *worker, next_gpu_for(use, console)));
}

Invocation declare_resume() {
  const auto flags = std::make_shared<ResumeFlags>();
  Invocation verb;
  verb.add({.name = "run",
            .value = &flags->run,
            .summary = "The run's folder, as `retort run` printed it",
            .required = true});
  verb.add({.name = "overrides", .value = &flags->overrides, .summary = "key=value: options to change from here on"});
  add_reuse(verb, flags->reuse);
  add_log_level(verb, flags->log, LogPlace::kFile);
  verb.add({.name = "--force",
            .value = &flags->force,
            .summary = "Accept changes after which the result matches neither recipe"});
  verb.run = [flags](Console& console) { return resume(*flags, console); };
  return verb;
}

}  // namespace

const Command kResumeCommand = {"resume", "Continues a run that was stopped or killed, to the same result.",
                                "retort resume outputs/2026-01-31/12-00-00", declare_resume};

}  // namespace runner
