#include "runner/parent/compile/broken_rules.h"

#include <algorithm>
#include <set>
#include <string>

#include "runner/parent/compile/option_walk.h"
#include "runner/parent/schema/schema_node.h"
#include "runner/shared/value/place.h"

namespace runner {

Diagnostics broken_rules(const Graph& graph, const SchemaSet& schemas) {
  Diagnostics errors;
  std::set<std::string> seen;  // nodes of one foreach share their mistakes
  const auto add = [&](const Rule& rule, const OptionMapping& mapping) {
    const bool is_elsewhere = rule.at.starts_with(kInputsPrefix);
    const WiredOption of_input = is_elsewhere ? wired_option(graph, mapping.node, rule.at) : WiredOption();
    const Value& around = of_input.node ? of_input.node->options : mapping.options;
    std::string place = of_input.node ? of_input.option : rule.at;
    const Value* option = at_key(around, place);
    std::ranges::replace(place, '.', '/');
    const std::string pointer = (of_input.node ? of_input.node->pointer : mapping.pointer) + "/" + place;
    std::string message = filled_in(rule.message, mapping.look);
    if (!seen.insert(pointer + message).second) return;
    errors.push_back(
        {ErrorCode::kOptionConflict, place_of(option ? *option : around), pointer, std::move(message), rule.help});
  };
  visit_options(graph, schemas, [&](const OptionMapping& mapping) {
    for (const Rule& rule : mapping.schema.rules) {
      if (!holds(rule.condition, mapping.look)) add(rule, mapping);
    }
  });
  return errors;
}

}  // namespace runner
