#include "runner/run/run.h"

#include <nlohmann/json.hpp>

#include "runner/cli/command.h"
#include "runner/cli/prepare.h"

namespace runner {

ExitCode run_command(const Arguments& arguments, Console& console) {
  if (!arguments.show.empty() || !arguments.info.empty()) return config_command(arguments, console);
  if (arguments.multirun) return sweep_command(arguments, console);
  Sources sources;
  const SchemaSet schemas = shipped_schemas();
  auto prepared = prepare(arguments, schemas, sources);
  if (!prepared) return report(console, prepared.errors());
  if (const Diagnostics errors = schemas.planned_uses(prepared->recipe.resolved); !errors.empty())
    return report(console, errors);
  if (!arguments.only.empty()) {
    auto part = only(prepared->graph, arguments.only);
    if (!part) return report(console, part.errors());
    prepared->graph = std::move(*part);
  }
  const auto worker = find_worker(own_executable());
  if (!worker) return report(console, worker.errors());
  warn(console, prepared->composition.warnings);

  using Which = ReuseOptions::Which;
  const RunRequest request{.composition = prepared->composition,
                           .recipe = prepared->recipe,
                           .graph = prepared->graph,
                           .sources = sources,
                           .overrides = arguments.overrides,
                           .smoke = arguments.smoke,
                           .reuse = arguments.no_reuse ? Which::kNone
                                    : arguments.reuse  ? Which::kAll
                                                       : Which::kCacheable};
  return run(request, surroundings(console, *worker));
}

}  // namespace runner
