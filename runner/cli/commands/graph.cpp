#include <nlohmann/json.hpp>

#include "runner/cli/command.h"
#include "runner/graph/graph_drawing.h"
#include "runner/cli/prepare.h"

namespace runner {

ExitCode graph_command(const Arguments& arguments, Console& console) {
  Sources sources;
  const SchemaSet schemas = shipped_schemas();
  const auto prepared = prepare(arguments, schemas, sources);
  if (!prepared) return report(console, prepared.errors());
  warn(console, prepared->composition.warnings);
  const Graph& graph = prepared->graph;
  if (console.json || arguments.format == "json") console.out << draw_json(graph).dump(2) << '\n';
  else if (arguments.format == "dot") console.out << draw_dot(graph);
  else if (arguments.format == "mermaid") console.out << draw_mermaid(graph);
  else console.out << draw_text(graph);
  return ExitCode::kDone;
}

}  // namespace runner
