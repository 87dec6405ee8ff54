#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "runner/shared/graph/graph.h"

namespace runner {

/// For a terminal: each node with its inputs and their sources, in execution order.
std::string draw_text(const Graph& graph);

/// For Graphviz: `retort graph NAME --format dot | dot -Tsvg`.
std::string draw_dot(const Graph& graph);

/// For Markdown: a mermaid flowchart.
std::string draw_mermaid(const Graph& graph);

/// {"recipe", "nodes": [{"id", "stage", "kind"}], "edges": [{"from", "output", "to", "input",
/// "type"}]}.
nlohmann::ordered_json draw_json(const Graph& graph);

}  // namespace runner
