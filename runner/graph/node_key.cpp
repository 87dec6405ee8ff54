#include "runner/graph/node_key.h"

#include <algorithm>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/disk/digest.h"
#include "runner/schema/schema_node.h"
#include "runner/stage/family.h"

namespace runner {
namespace {

/// Removes from the mapping `value`, at `path` of the recipe, what does not bear on the result. Is there any?
bool remove_safe(Value& value, std::vector<std::string>& path, const Value& recipe, const SchemaSet& schemas) {
  if (!value.map()) return false;
  bool is_changed = false;
  std::erase_if(*value.map(), [&](Entry& entry) {
    path.push_back(entry.key);
    const bool is_safe = schemas.resume_class(recipe, path) == ResumeClass::kSafe;
    if (is_safe || remove_safe(entry.value, path, recipe, schemas)) is_changed = true;
    path.pop_back();
    return is_safe;
  });
  return is_changed;
}

bool hides_anything(const Value& value) {
  if (!value.secret_as.empty()) return !value.text() || *value.text() != value.secret_as;
  const auto* list = value.list();
  const auto* map = value.map();
  return (list && std::ranges::any_of(*list, hides_anything)) ||
         (map && std::ranges::any_of(*map, hides_anything, &Entry::value));
}

}  // namespace

std::vector<std::string> node_keys(const Graph& graph) {
  std::vector<std::string> keys;
  for (const Node& node : graph.nodes) {
    nlohmann::json inputs = nlohmann::json::array();
    for (const Edge& edge : node.inputs) inputs.push_back({edge.input, keys[edge.from], edge.output});
    const nlohmann::json all = {{"kind", node.kind},
                                {"options", to_json(node.key_options ? *node.key_options : node.options)},
                                {"seed", node.seed},
                                {"inputs", std::move(inputs)}};
    keys.push_back(sha256(all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
  }
  return keys;
}

std::optional<Value> key_options(const Node& node, const Value& recipe, const SchemaSet& schemas) {
  Value kept = node.options;
  std::vector<std::string> path = {node.stage};
  const auto family = family_of(node.kind);
  const bool may_change = family == Family::kData || family == Family::kMemory;
  const bool is_changed = may_change && remove_safe(kept, path, recipe, schemas);
  if (!is_changed && !hides_anything(kept)) return std::nullopt;
  return from_json(to_json(kept));
}

}  // namespace runner
