#include "runner/run/run.h"

#include <nlohmann/json.hpp>

#include "runner/command.h"
#include "runner/prepare.h"

namespace runner {
namespace {

/// Kinds whose schema is there and whose code is not: they validate and draw, but do not run.
Diagnostics planned_kinds(const Recipe& recipe, const SchemaSet& schemas) {
  Diagnostics errors;
  for (const StageSpec& stage : recipe.stages) {
    if (!schemas.kind(stage.kind)->planned) continue;
    errors.push_back({ErrorCode::kNotBuiltYet, stage.name_where, pointer_to("", stage.name),
                      "'" + stage.kind + "' validates, but this version cannot run it yet", ""});
  }
  return errors;
}

}  // namespace

ExitCode run_command(const Arguments& arguments, Console& console) {
  Sources sources;
  const SchemaSet schemas = shipped_schemas();
  auto prepared = prepare(arguments, schemas, sources);
  if (!prepared) return report(console, prepared.errors());
  if (const Diagnostics errors = planned_kinds(prepared->recipe, schemas); !errors.empty())
    return report(console, errors);
  if (!arguments.only.empty()) {
    auto part = only(prepared->graph, arguments.only);
    if (!part) return report(console, part.errors());
    prepared->graph = std::move(*part);
  }
  const auto worker = find_worker(own_executable());
  if (!worker) return report(console, worker.errors());
  warn(console, prepared->composition.warnings);

  const RunRequest request{.composition = prepared->composition,
                           .recipe = prepared->recipe,
                           .graph = prepared->graph,
                           .sources = sources,
                           .overrides = arguments.overrides,
                           .smoke = arguments.smoke};
  const RunSurroundings surroundings{.worker = {.program = *worker},
                                     .results = console.out,
                                     .talk = console.err,
                                     .display = standard_error_display(console.verbosity),
                                     .json = console.json};
  return run(request, surroundings);
}

}  // namespace runner
