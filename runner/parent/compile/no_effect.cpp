#include "runner/parent/compile/no_effect.h"

#include <algorithm>
#include <set>
#include <string>

#include "runner/parent/compile/option_walk.h"
#include "runner/parent/schema/schema_node.h"

namespace runner {
namespace {

bool is_of_override(const Location& where) {
  return where.source && (where.source->name.starts_with("override") || where.source->name.starts_with("sweep.params"));
}

/// The first place in `value` at which somebody has written something; null: all of it is as it would be anyway.
const Value* written_in(const Value& value, const Value* fallback) {
  if (value.map()) {
    for (const Entry& entry : *value.map()) {
      const Value* const usual = fallback && fallback->map() ? fallback->find(entry.key) : nullptr;
      if (const Value* const found = written_in(entry.value, usual)) return found;
    }
    return nullptr;
  }
  if (value.is_default) return nullptr;
  return is_of_override(value.where) || !fallback || !same_data(value, *fallback) ? &value : nullptr;
}

}  // namespace

Diagnostics options_without_effect(const Value& resolved, const Graph& graph, const SchemaSet& schemas) {
  Diagnostics found;
  std::set<std::string> seen;  // nodes of one foreach share their options
  const auto see = [&](const OptionMapping& mapping) {
    for (const NamedSchema& option : mapping.schema.properties) {
      const auto& effects = effects_of(*option.schema);
      const Value* const value = effects.empty() ? nullptr : mapping.options.find(option.name);
      const Value* const written = value ? written_in(*value, default_of(*option.schema)) : nullptr;
      if (!written) continue;
      const auto missed =
          std::ranges::find_if(effects, [&](const Effect& effect) { return !holds(effect.when, mapping.look); });
      if (missed == effects.end()) continue;
      const std::string pointer = pointer_to(mapping.pointer, option.name);
      if (!seen.insert(pointer).second) continue;
      found.push_back({ErrorCode::kOptionConflict,
                       written->where,
                       pointer,
                       "'" + option.name + "' has no effect: " + filled_in(missed->why, mapping.look),
                       "leave it out, or change what keeps it from having one",
                       {},
                       Severity::kWarning});
    }
  };
  visit_options(graph, schemas, see);
  const SchemaNode* const recipe = schemas.node("recipe.schema.json");
  for (const char* key : {"device", "sweep"}) {
    const Value* const options = resolved.find(key);
    if (const SchemaNode* const schema = recipe && options ? recipe->property(key) : nullptr)
      visit_options_of(*options, *schema, pointer_to("", key), see);
  }
  return found;
}

}  // namespace runner
