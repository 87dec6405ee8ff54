#include "runner/shared/graph/node_document.h"

#include <set>

#include "runner/shared/disk/digest.h"

namespace runner {
namespace {

using nlohmann::json;

constexpr std::size_t kLongestScalar = 60;

std::string text_of(const json& value) {
  std::string text = value.is_string() ? value.get<std::string>()
                                       : value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > kLongestScalar) text = text.substr(0, kLongestScalar) + "…";
  return text;
}

json part_of(const json& object, const std::string& key) {
  return object.is_object() && object.contains(key) ? object[key] : json();
}

/// Returns the keys of both objects, sorted.
std::set<std::string> keys_of(const json& a, const json& b) {
  std::set<std::string> keys;
  for (const json* object : {&a, &b}) {
    if (!object->is_object()) continue;
    for (const auto& [key, value] : object->items()) keys.insert(key);
  }
  return keys;
}

/// Adds a line for each value below `name` that differs.
void compare(const std::string& name, const json& before, const json& now,
             std::vector<std::string>& lines) {
  if (before == now) return;
  if (before.is_object() && now.is_object()) {
    for (const std::string& key : keys_of(before, now)) {
      compare(name.empty() ? key : name + "." + key, part_of(before, key), part_of(now, key),
              lines);
    }
    return;
  }
  lines.push_back(name + " was " + text_of(before) + " and is now " + text_of(now));
}

void compare_nodes(const std::string& id, const json& before, const json& now,
                   std::vector<std::string>& lines) {
  if (!before.is_object()) return lines.push_back("'" + id + "' is new");
  if (!now.is_object()) return lines.push_back("'" + id + "' was removed");
  for (const std::string& key : keys_of(before, now)) {
    const json was = part_of(before, key), is = part_of(now, key);
    if (was == is) continue;
    if (key == "fingerprint") lines.push_back("the files of '" + id + "' have changed");
    else if (key == "code") lines.push_back("the Python code of '" + id + "' has changed");
    else compare(key == "options" ? id : id + "." + key, was, is, lines);
  }
}

}  // namespace

json node_document(const Graph& graph, std::span<const StageFacts> facts, std::size_t index,
                   const json& world) {
  std::vector<bool> needed(graph.nodes.size(), false);
  needed[index] = true;
  json nodes = json::object();
  for (std::size_t i = index + 1; i-- > 0;) {
    if (!needed[i]) continue;
    const Node& node = graph.nodes[i];
    json inputs = json::object();
    for (const Edge& edge : node.inputs) {
      needed[edge.from] = true;
      inputs[edge.input].push_back(graph.nodes[edge.from].id + "." + edge.output);
    }
    json& own = nodes[node.id];
    own = {{"kind", node.kind},
           {"version", node.version},
           {"options", to_json(node.key_options ? *node.key_options : node.options)},
           {"inputs", std::move(inputs)}};
    if (!node.code.empty()) own["code"] = node.code;
    if (!facts[i].fingerprint.empty()) own["fingerprint"] = facts[i].fingerprint;
    if (facts[i].uses_seed) own["seed"] = node.seed;
  }
  return {{"world", world}, {"nodes", std::move(nodes)}};
}

std::string document_key(const json& document) {
  return sha256(document.dump(-1, ' ', false, json::error_handler_t::replace));
}

std::vector<std::string> differences(const json& before, const json& now) {
  std::vector<std::string> lines;
  const json old_nodes = part_of(before, "nodes"), new_nodes = part_of(now, "nodes");
  for (const std::string& id : keys_of(old_nodes, new_nodes)) {
    compare_nodes(id, part_of(old_nodes, id), part_of(new_nodes, id), lines);
  }
  compare("", part_of(before, "world"), part_of(now, "world"), lines);
  return lines;
}

}  // namespace runner
