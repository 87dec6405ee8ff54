#include <set>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "runner/graph/graph.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void refuse(const std::string& what) { throw std::runtime_error("graph: " + what); }

template <typename T>
T field(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) refuse("no '" + std::string(key) + "'");
  try {
    return found->get<T>();
  } catch (const Json::exception&) {
    refuse("'" + std::string(key) + "' has the wrong type");
  }
}

Edge edge_from_json(const Json& json, std::size_t holder) {
  Edge edge{.input = field<std::string>(json, "input"),
            .from = field<std::size_t>(json, "from"),
            .output = field<std::string>(json, "output"),
            .type = {}};
  const auto type = artifact_type(field<std::string>(json, "type"));
  if (!type) refuse("an edge has an unknown type");
  if (edge.from >= holder) refuse("an edge comes from a node that runs later");
  edge.type = *type;
  edge.optional = field<bool>(json, "optional");
  return edge;
}

Node node_from_json(const Json& json, std::size_t index) {
  Node node{.id = field<std::string>(json, "id"),
            .stage = field<std::string>(json, "stage"),
            .kind = field<std::string>(json, "kind"),
            .options = from_json(field<Json>(json, "options")),
            .pointer = field<std::string>(json, "pointer"),
            .inputs = {},
            .seed = field<std::uint64_t>(json, "seed"),
            .version = field<int>(json, "version"),
            .cacheable = field<bool>(json, "cacheable")};
  if (json.contains("key_options")) node.key_options = from_json(json["key_options"]);
  const bool is_name = !node.id.empty() && node.id.size() <= 120 && node.id[0] != '.' &&
                       node.id.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") ==
                           std::string::npos;
  if (!is_name) refuse("a node's id is no file name");
  if (!node.options.map()) refuse("a node's options are no mapping");
  for (const Json& edge : field<Json>(json, "inputs")) node.inputs.push_back(edge_from_json(edge, index));
  return node;
}

}  // namespace

Json to_json(const Graph& graph) {
  Json nodes = Json::array();
  for (const Node& node : graph.nodes) {
    Json inputs = Json::array();
    for (const Edge& edge : node.inputs) {
      inputs.push_back({{"input", edge.input},
                        {"from", edge.from},
                        {"output", edge.output},
                        {"type", name(edge.type)},
                        {"optional", edge.optional}});
    }
    nodes.push_back({{"id", node.id},
                     {"stage", node.stage},
                     {"kind", node.kind},
                     {"pointer", node.pointer},
                     {"seed", node.seed},
                     {"inputs", std::move(inputs)},
                     {"version", node.version},
                     {"cacheable", node.cacheable},
                     {"options", to_json(node.options, /*hide_secrets=*/false)}});
    if (node.key_options) nodes.back()["key_options"] = to_json(*node.key_options);
  }
  return {{"recipe", graph.recipe},
          {"seed", graph.seed},
          {"threads", graph.threads ? Json(*graph.threads) : Json(nullptr)},
          {"determinism", name(graph.determinism)},
          {"device", graph.device},
          {"nodes", std::move(nodes)},
          {"recipe_hash", graph.recipe_hash}};
}

Graph graph_from_json(const Json& json) {
  if (!json.is_object()) refuse("not an object");
  Graph graph{.recipe = field<std::string>(json, "recipe"),
              .seed = field<std::uint64_t>(json, "seed"),
              .threads = std::nullopt,
              .device = field<std::string>(json, "device"),
              .nodes = {},
              .recipe_hash = field<std::string>(json, "recipe_hash")};
  if (const auto threads = field<Json>(json, "threads"); !threads.is_null())
    graph.threads = field<int>(json, "threads");
  const auto determinism = determinism_named(field<std::string>(json, "determinism"));
  if (!determinism) refuse("its determinism is unknown");
  graph.determinism = *determinism;
  std::set<std::string> ids;
  for (const Json& node : field<Json>(json, "nodes")) {
    graph.nodes.push_back(node_from_json(node, graph.nodes.size()));
    if (!ids.insert(graph.nodes.back().id).second) refuse("two nodes have the id '" + graph.nodes.back().id + "'");
  }
  return graph;
}

}  // namespace runner
