#include <nlohmann/json.hpp>

#include "runner/cli/command.h"
#include "runner/cli/prepare.h"

namespace runner {

ExitCode validate_command(const Arguments& arguments, Console& console) {
  Sources sources;
  const SchemaSet schemas = shipped_schemas();
  const auto prepared = prepare(arguments, schemas, sources);
  if (!prepared) return report(console, prepared.errors());
  warn(console, prepared->composition.warnings);
  const auto& [composition, recipe, graph] = *prepared;
  if (console.json) {
    console.out << nlohmann::ordered_json{{"valid", true},
                                          {"name", recipe.name},
                                          {"file", composition.file.string()},
                                          {"stages", recipe.stages.size()},
                                          {"nodes", graph.nodes.size()}}
                       .dump(2)
                << '\n';
  } else if (!console.is_quiet()) {
    console.out << recipe.name << " is valid: " << recipe.stages.size() << " stages, " << graph.nodes.size()
                << " nodes\n";
  }
  return ExitCode::kDone;
}

}  // namespace runner
