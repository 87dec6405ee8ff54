#include "runner/shared/graph/graph.h"

#include <algorithm>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/shared/disk/digest.h"
#include "runner/shared/stage/family.h"
#include "runner/shared/text/suggest.h"
#include "runner/shared/value/json_fields.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void refuse(const std::string& what) { throw std::runtime_error("graph: " + what); }

using Fields = JsonFields<Json>;

Edge edge_from_json(const Json& json, std::size_t holder) {
  const Fields fields(json, "an edge of the graph");
  Edge edge{.input = fields.text("input"),
            .from = static_cast<std::size_t>(fields.count("from")),
            .output = fields.text("output"),
            .type = {}};
  const auto type = artifact_type(fields.text("type"));
  if (!type) refuse("an edge has an unknown type");
  if (edge.from >= holder) refuse("an edge starts at a node that runs later");
  edge.type = *type;
  edge.optional = fields.flag("optional");
  return edge;
}

Node node_from_json(const Json& json, std::size_t index) {
  const Fields fields(json, "a node of the graph");
  Node node{.id = fields.text("id"),
            .stage = fields.text("stage"),
            .kind = fields.text("kind"),
            .options = from_json(fields.at("options")),
            .pointer = fields.text("pointer"),
            .inputs = {},
            .seed = fields.seed("seed"),
            .version = static_cast<int>(fields.integer("version")),
            .cacheable = fields.flag("cacheable"),
            .title = fields.text("title")};
  if (json.contains("code")) node.code = fields.text("code");
  if (json.contains("key_options")) node.key_options = from_json(json["key_options"]);
  const bool is_name =
      !node.id.empty() && node.id.size() <= 120 && node.id[0] != '.' &&
      node.id.find_first_not_of(
          "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == std::string::npos;
  if (!is_name) refuse("a node's id is not a file name");
  if (!node.options.map()) refuse("a node's options are not a mapping");
  for (const Json& edge : fields.list("inputs")) node.inputs.push_back(edge_from_json(edge, index));
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
                     {"title", node.title},
                     {"kind", node.kind},
                     {"pointer", node.pointer},
                     {"seed", node.seed},
                     {"inputs", std::move(inputs)},
                     {"version", node.version},
                     {"cacheable", node.cacheable},
                     {"options", to_json(node.options, /*hide_secrets=*/false)}});
    if (node.key_options) nodes.back()["key_options"] = to_json(*node.key_options);
    if (!node.code.empty()) nodes.back()["code"] = node.code;
  }
  Json json = {{"recipe", graph.recipe},
               {"seed", graph.seed},
               {"threads", graph.threads ? Json(*graph.threads) : Json(nullptr)},
               {"determinism", name(graph.determinism)},
               {"device", graph.device},
               {"nodes", std::move(nodes)},
               {"recipe_hash", graph.recipe_hash},
               {"working_folder", graph.working_folder}};
  if (graph.ranks > 1) {
    json["ranks"] = graph.ranks;
    json["collective_timeout"] = graph.collective_timeout;
  }
  if (!graph.python.files.empty()) {
    json["python"] = {{"files", graph.python.files}, {"folders", graph.python.folders}};
  }
  return json;
}

Graph graph_from_json(const Json& json) {
  const Fields fields(json, "the graph");
  Graph graph{.recipe = fields.text("recipe"),
              .seed = fields.seed("seed"),
              .threads = std::nullopt,
              .device = fields.text("device"),
              .ranks = 1,
              .nodes = {},
              .recipe_hash = fields.text("recipe_hash")};
  if (json.contains("ranks")) {
    graph.ranks = static_cast<int>(fields.count("ranks"));
    graph.collective_timeout = fields.count("collective_timeout");
  }
  if (!fields.at("threads").is_null()) graph.threads = static_cast<int>(fields.integer("threads"));
  const auto determinism = determinism_named(fields.text("determinism"));
  if (!determinism) refuse("its determinism is unknown");
  graph.determinism = *determinism;
  graph.working_folder = fields.text("working_folder");
  if (json.contains("python")) {
    const Json python = fields.object("python"), files = Fields(python, "python").object("files");
    for (const auto& [path, sha256] : files.items())
      graph.python.files[path] = Fields(files, "python.files").text(path.c_str());
    for (const Json& folder : Fields(python, "python").list("folders")) {
      if (!folder.is_string()) refuse("a folder of its Python code is not a string");
      graph.python.folders.push_back(folder);
    }
  }
  std::set<std::string> ids;
  for (const Json& node : fields.list("nodes")) {
    graph.nodes.push_back(node_from_json(node, graph.nodes.size()));
    if (!ids.insert(graph.nodes.back().id).second)
      refuse("two nodes have the id '" + graph.nodes.back().id + "'");
  }
  return graph;
}

namespace {

/// Returns the part of `graph` consisting of the `chosen` nodes and all nodes that they need.
Graph part_with(const Graph& graph, std::vector<bool> chosen) {
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    if (!chosen[i]) continue;
    for (const Edge& edge : graph.nodes[i].inputs) chosen[edge.from] = true;
  }
  Graph part = graph;
  part.nodes.clear();
  std::vector<std::size_t> position(graph.nodes.size());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!chosen[i]) continue;
    position[i] = part.nodes.size();
    part.nodes.push_back(graph.nodes[i]);
    for (Edge& edge : part.nodes.back().inputs) edge.from = position[edge.from];
  }
  return part;
}

}  // namespace

Graph only_trainings(const Graph& graph) {
  std::vector<bool> chosen;
  for (const Node& node : graph.nodes) chosen.push_back(family_of(node.kind) == Family::kTrain);
  return part_with(graph, std::move(chosen));
}

Result<Graph> only(const Graph& graph, const std::string& name) {
  std::vector<bool> chosen;
  for (const Node& node : graph.nodes) chosen.push_back(node.id == name || node.stage == name);
  if (std::ranges::count(chosen, true) > 0) return part_with(graph, std::move(chosen));
  std::vector<std::string> names;
  for (const Node& node : graph.nodes) names.push_back(node.id);
  std::string help = did_you_mean(name, names);
  return Diagnostic{ErrorCode::kUnknownNode,
                    {},
                    "",
                    "the graph has no node '" + name + "'",
                    help.empty() ? "`retort graph` shows the nodes" : help};
}

Result<Graph> only_without_data(Graph graph, const std::string& name) {
  for (Node& node : graph.nodes) {
    std::erase_if(node.inputs,
                  [](const Edge& edge) { return edge.type == ArtifactType::kDataset; });
  }
  return only(graph, name);
}

std::vector<std::string> node_keys(const Graph& graph) {
  std::vector<std::string> keys;
  for (const Node& node : graph.nodes) {
    nlohmann::json inputs = nlohmann::json::array();
    for (const Edge& edge : node.inputs)
      inputs.push_back({edge.input, keys[edge.from], edge.output});
    nlohmann::json all = {{"kind", node.kind},
                          {"options", to_json(node.key_options ? *node.key_options : node.options)},
                          {"seed", node.seed},
                          {"inputs", std::move(inputs)}};
    if (!node.code.empty()) all["code"] = node.code;
    keys.push_back(sha256(all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
  }
  return keys;
}

}  // namespace runner
