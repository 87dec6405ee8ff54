#include "runner/graph/key_options.h"

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/schema/schema_node.h"
#include "runner/stage/family.h"

namespace runner {
namespace {

/// Removes from the mapping `value`, at `path` of the recipe, what does not bear on a sample.
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

std::optional<Value> key_options(const Node& node, const Value& recipe, const SchemaSet& schemas) {
  Value kept = node.options;
  std::vector<std::string> path = {node.stage};
  if (family_of(node.kind) == Family::kData) remove_safe(kept, path, recipe, schemas);
  nlohmann::ordered_json shown = to_json(kept);
  if (shown == to_json(node.options, /*hide_secrets=*/false)) return std::nullopt;
  return from_json(shown);
}

}  // namespace runner
