#include "runner/cli/command.h"
#include "runner/cli/prepare.h"
#include "runner/config/provenance.h"
#include "runner/run/recipe_change.h"
#include "runner/record/recorded_run.h"
#include "runner/run/run.h"
#include "runner/record/trained_run.h"

namespace runner {

ExitCode evaluate_command(const Arguments& arguments, Console& console) {
  const auto run = read_run(arguments.run_folder);
  if (!run) return report(console, run.errors());
  Sources sources;
  const SchemaSet schemas = shipped_schemas();
  const auto before = prepare_recorded(run->recipe, {}, schemas, sources);
  if (!before) return report(console, before.errors());
  auto prepared = prepare_recorded(run->recipe, arguments.overrides, schemas, sources);
  if (!prepared) return report(console, prepared.errors());
  Diagnostics errors = check_change_of_trained(before->recipe.resolved, prepared->recipe.resolved);
  if (errors.empty()) errors = schemas.planned_uses(prepared->recipe.resolved);
  if (!errors.empty()) return report(console, errors);
  Graph& graph = prepared->graph;
  auto trained = find_trained_nodes(*run, graph, arguments.checkpoint);
  if (!trained) return report(console, trained.errors());
  const auto worker = find_worker(own_executable());
  if (!worker) return report(console, worker.errors());
  warn(console, prepared->composition.warnings);

  // A record of its own, independent of the run's folder.
  const bool says_where = !writes({}, prepared->composition.overrides, "run.dir").empty();
  if (!says_where) prepared->recipe.run_dir.clear();
  if (graph.threads == before->graph.threads) graph.threads = run->threads;
  if (graph.device == before->graph.device) graph.device = run->device;
  using Which = ReuseOptions::Which;
  const RunRequest request{.composition = prepared->composition,
                           .recipe = prepared->recipe,
                           .graph = graph,
                           .sources = sources,
                           .overrides = arguments.overrides,
                           .trained = *std::move(trained),
                           .source = run->folder,
                           .reuse = arguments.no_reuse ? Which::kNone : Which::kCacheable};
  return runner::run(request, surroundings(console, *worker));
}

}  // namespace runner
