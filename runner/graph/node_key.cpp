#include "runner/graph/node_key.h"

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/disk/digest.h"
#include "runner/schema/schema_node.h"
#include "runner/stage/family.h"

namespace runner {
namespace {

/// Removes from the mapping `value`, at `path` of the recipe, what does not bear on the result.
void remove_safe(Value& value, std::vector<std::string>& path, const Value& recipe, const SchemaSet& schemas) {
  if (!value.map()) return;
  std::erase_if(*value.map(), [&](Entry& entry) {
    path.push_back(entry.key);
    const bool is_safe = schemas.resume_class(recipe, path) == ResumeClass::kSafe;
    if (!is_safe) remove_safe(entry.value, path, recipe, schemas);
    path.pop_back();
    return is_safe;
  });
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
  if (family == Family::kData || family == Family::kMemory) remove_safe(kept, path, recipe, schemas);
  nlohmann::ordered_json shown = to_json(kept);
  if (shown == to_json(node.options, /*hide_secrets=*/false)) return std::nullopt;
  return from_json(shown);
}

}  // namespace runner
