#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "runner/shared/graph/graph.h"

namespace runner {

/// Draws the graph for a terminal: each node with its inputs and their sources, in execution order.
std::string draw_text(const Graph& graph);

/// Draws the graph for Graphviz: `retort graph NAME --format dot | dot -Tsvg`.
std::string draw_dot(const Graph& graph);

/// Draws the graph for Markdown, as a mermaid flowchart.
std::string draw_mermaid(const Graph& graph);

/// Returns the graph as {"recipe", "nodes": [{"id", "stage", "kind"}], "edges": [{"from", "output",
/// "to", "input", "type"}]}.
nlohmann::ordered_json draw_json(const Graph& graph);

}  // namespace runner
