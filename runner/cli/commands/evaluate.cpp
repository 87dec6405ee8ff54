#include <memory>

#include "runner/cli/command.h"
#include "runner/cli/log_flags.h"
#include "runner/cli/prepare.h"
#include "runner/cli/reuse_flags.h"
#include "runner/cli/weights_source.h"
#include "runner/run/evaluated_data.h"
#include "runner/run/recipe_change.h"
#include "runner/record/recorded_run.h"
#include "runner/run/run.h"

namespace runner {
namespace {

struct EvaluateFlags {
  WeightsSource trained;
  ReuseFlags reuse;
  LogFlags log;
  std::vector<std::string> overrides;
};

ExitCode evaluate(const EvaluateFlags& flags, Console& console) {
  const auto run = read_run(flags.trained.run);
  if (!run) return report(console, run.errors());
  Sources& sources = console.sources;
  const SchemaSet schemas = shipped_schemas();
  const auto before = prepare_recorded(run->recipe, {}, schemas, sources);
  if (!before) return report(console, before.errors());
  auto prepared = prepare_recorded(run->recipe, flags.overrides, schemas, sources);
  if (!prepared) return report(console, prepared.errors());
  Diagnostics errors = check_change_of_trained(before->recipe.resolved, prepared->recipe.resolved);
  if (errors.empty()) errors = schemas.planned_uses(prepared->recipe.resolved);
  if (!errors.empty()) return report(console, errors);
  std::vector<std::string> overrides = flags.overrides;
  const EvaluatedData data =
      data_to_evaluate(before->recipe.resolved, prepared->recipe.resolved, overrides, prepared->graph.working_folder);
  if (!data.overrides.empty()) {
    overrides.insert(overrides.end(), data.overrides.begin(), data.overrides.end());
    prepared = prepare_recorded(run->recipe, overrides, schemas, sources);
    if (!prepared) return report(console, prepared.errors());
  }
  Graph& graph = prepared->graph;
  auto trained = trained_nodes(*run, graph, flags.trained);
  if (!trained) return report(console, trained.errors());
  const auto worker = flags.log.worker();
  if (!worker) return report(console, worker.errors());
  warn(console, prepared->composition.warnings);
  if (!console.is_quiet()) {
    for (const std::string& line : data.lines) console.err << line << '\n';
  }

  if (graph.threads == before->graph.threads) graph.threads = run->threads;
  if (graph.device == before->graph.device) graph.device = run->device;
  const RunRequest request{.composition = prepared->composition,
                           .recipe = prepared->recipe,
                           .graph = graph,
                           .sources = sources,
                           .overrides = overrides,
                           .trained = *std::move(trained),
                           .source = run->folder,
                           .reuse = flags.reuse.which()};
  return runner::run(request, surroundings(console, *worker));
}

Invocation declare_evaluate() {
  const auto flags = std::make_shared<EvaluateFlags>();
  Invocation verb;
  add_weights_source(verb, flags->trained);
  add_reuse(verb, flags->reuse);
  add_log_level(verb, flags->log, LogPlace::kFile);
  verb.add({.name = "overrides",
            .value = &flags->overrides,
            .summary = "key=value: other data, other options of evaluate, device, run.dir"});
  verb.run = [flags](Console& console) { return evaluate(*flags, console); };
  return verb;
}

}  // namespace

const Command kEvaluateCommand = {"evaluate", "Evaluates what a run trained, on other data or with other metrics.",
                                  "retort evaluate outputs/2026-01-31/12-00-00 data.root=photos2 evaluate.top_k=[1,5]",
                                  declare_evaluate};

}  // namespace runner
