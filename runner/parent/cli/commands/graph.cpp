#include <memory>

#include <nlohmann/json.hpp>

#include "runner/parent/cli/command.h"
#include "runner/parent/cli/prepare.h"
#include "runner/parent/compile/graph_drawing.h"
#include "runner/parent/page/graph_picture.h"

namespace runner {
namespace {

struct GraphFlags {
  NamedRecipe recipe;
  std::string format;  ///< text, dot, mermaid, svg or json
};

ExitCode draw_graph(const GraphFlags& flags, Console& console) {
  Sources& sources = console.sources;
  const SchemaSet& schemas = shipped_schemas();
  const auto prepared = prepare(flags.recipe, schemas, sources);
  if (!prepared) return report(console, prepared.errors());
  warn(console, prepared->composition.warnings);
  const Graph& graph = prepared->graph;
  const auto drawing = [&] {
    return flags.format == "dot"       ? draw_dot(graph)
           : flags.format == "mermaid" ? draw_mermaid(graph)
           : flags.format == "svg"     ? draw_stages(graph).svg()
                                       : draw_text(graph);
  };
  const bool is_drawn = !flags.format.empty() && flags.format != "json";
  if (!console.json)
    console.out << (flags.format == "json" ? draw_json(graph).dump(2) + "\n" : drawing());
  else if (is_drawn)
    print_result(console, "drawing/1", {{"format", flags.format}, {"text", drawing()}});
  else print_result(console, "graph/1", draw_json(graph));
  return ExitCode::kDone;
}

Invocation declare_graph() {
  const auto flags = std::make_shared<GraphFlags>();
  Invocation verb;
  verb.add_recipe(flags->recipe);
  verb.add({.name = "--format",
            .value = &flags->format,
            .summary = "text, dot, mermaid, svg or json",
            .type = "FORMAT",
            .choices = {"text", "dot", "mermaid", "svg", "json"},
            .assumed = "text"});
  verb.run = [flags](Console& console) { return draw_graph(*flags, console); };
  return verb;
}

}  // namespace

const Command kGraphCommand = {"graph", "Draws the stages of a recipe and what flows between them.",
                               "retort graph quickstart --format dot", declare_graph};

}  // namespace runner
