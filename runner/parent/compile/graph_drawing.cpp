#include "runner/parent/compile/graph_drawing.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace runner {
namespace {

/// Returns the label of an edge: "train", or "validation → train" if the names differ.
std::string ports(const Edge& edge) {
  return edge.output == edge.input ? edge.input : edge.output + " → " + edge.input;
}

std::string padded(std::string text, std::size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

/// Returns `text` in double quotes, in a form that both DOT and mermaid parse.
std::string in_double_quotes(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) result += c == '"' ? "'" : std::string(1, c);
  return result + '"';
}

}  // namespace

std::string draw_text(const Graph& graph) {
  std::size_t width = 0;
  for (const Node& node : graph.nodes) width = std::max(width, node.id.size());
  std::string text = graph.recipe + '\n';
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    const bool is_last = i + 1 == graph.nodes.size();
    text += (is_last ? "└─ " : "├─ ") + padded(node.id, width) + "  " + node.kind + '\n';
    for (const Edge& edge : node.inputs) {
      text += (is_last ? "   " : "│  ") + std::string(width, ' ') + "  ← " +
              graph.nodes[edge.from].id + '.' + ports(edge) + "  (" + std::string(name(edge.type)) +
              ")\n";
    }
  }
  return text;
}

std::string draw_dot(const Graph& graph) {
  std::string text = "digraph " + in_double_quotes(graph.recipe) +
                     " {\n  rankdir=LR;\n  node [shape=box, style=rounded];\n";
  for (const Node& node : graph.nodes)
    text += "  " + in_double_quotes(node.id) +
            " [label=" + in_double_quotes(node.id + "\\n" + node.kind) + "];\n";
  for (const Node& node : graph.nodes) {
    for (const Edge& edge : node.inputs) {
      text += "  " + in_double_quotes(graph.nodes[edge.from].id) + " -> " +
              in_double_quotes(node.id) + " [label=" + in_double_quotes(ports(edge)) + "];\n";
    }
  }
  return text + "}\n";
}

std::string draw_mermaid(const Graph& graph) {
  std::string text = "flowchart LR\n";
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    text += "  n" + std::to_string(i) + "[" +
            in_double_quotes(graph.nodes[i].id + "<br>" + graph.nodes[i].kind) + "]\n";
  }
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const Edge& edge : graph.nodes[i].inputs) {
      text += "  n" + std::to_string(edge.from) + " -->|" + in_double_quotes(ports(edge)) + "| n" +
              std::to_string(i) + '\n';
    }
  }
  return text;
}

nlohmann::ordered_json draw_json(const Graph& graph) {
  auto nodes = nlohmann::ordered_json::array();
  auto edges = nlohmann::ordered_json::array();
  for (const Node& node : graph.nodes) {
    nodes.push_back({{"id", node.id}, {"stage", node.stage}, {"kind", node.kind}});
    for (const Edge& edge : node.inputs) {
      edges.push_back({{"from", graph.nodes[edge.from].id},
                       {"output", edge.output},
                       {"to", node.id},
                       {"input", edge.input},
                       {"type", name(edge.type)}});
    }
  }
  return {{"recipe", graph.recipe}, {"nodes", std::move(nodes)}, {"edges", std::move(edges)}};
}

}  // namespace runner
