#include <algorithm>

#include "runner/cli/command.h"
#include "runner/cli/prepare.h"
#include "runner/run/recipe_change.h"
#include "runner/record/recorded_run.h"
#include "runner/run/run.h"
#include "runner/schema/schema_node.h"

namespace runner {
ExitCode resume_command(const Arguments& arguments, Console& console) {
  const auto run = read_run(arguments.run_folder);
  if (!run) return report(console, run.errors());
  if (!run->source.empty()) {
    return report(console, {{ErrorCode::kNoRun,
                             {},
                             "",
                             "'" + arguments.run_folder + "' is an evaluation of '" + run->source +
                                 "': there is no training to continue",
                             "evaluate it again: retort evaluate " + run->source}});
  }
  Sources sources;
  const SchemaSet schemas = shipped_schemas();
  const auto before = prepare_recorded(run->recipe, {}, schemas, sources);
  if (!before) return report(console, before.errors());
  auto prepared = prepare_recorded(run->recipe, arguments.overrides, schemas, sources);
  if (!prepared) return report(console, prepared.errors());
  const Value &old_recipe = before->recipe.resolved, &new_recipe = prepared->recipe.resolved;
  if (const Diagnostics errors = check_change(old_recipe, new_recipe, arguments.force, schemas); !errors.empty())
    return report(console, errors);
  if (run->status == "finished" && same_data(old_recipe, new_recipe)) {
    if (console.verbosity != Verbosity::kQuiet) console.err << "the run has finished: there is nothing to resume\n";
    console.out << run->folder.string() << '\n';
    return ExitCode::kDone;
  }
  if (const Diagnostics errors = schemas.planned_uses(new_recipe); !errors.empty()) return report(console, errors);
  const auto worker = find_worker(own_executable());
  if (!worker) return report(console, worker.errors());
  warn(console, prepared->composition.warnings);

  // Both are part of the bits: what `auto` came to then, it comes to again.
  Graph& graph = prepared->graph;
  if (graph.threads == before->graph.threads) graph.threads = run->threads;
  if (graph.device == before->graph.device) graph.device = run->device;
  using Which = ReuseOptions::Which;
  const RunRequest request{.composition = prepared->composition,
                           .recipe = prepared->recipe,
                           .graph = graph,
                           .sources = sources,
                           .overrides = arguments.overrides,
                           .resume = run->folder,
                           .reuse = arguments.no_reuse ? Which::kNone : Which::kCacheable};
  return runner::run(request, surroundings(console, *worker));
}

}  // namespace runner
