#include "runner/parent/schema/schema_circle.h"

#include <cstddef>
#include <map>

#include "runner/shared/value/value.h"

namespace runner {

std::vector<SchemaCircle> circles_in(const std::deque<SchemaNode>& nodes) {
  for (const SchemaNode& node : nodes) {
    std::size_t steps = 0;
    for (const SchemaNode* at = &node; at->target && steps <= nodes.size(); at = at->target)
      ++steps;
    if (steps > nodes.size()) return {{&node, "$ref refers to itself"}};
  }
  std::vector<SchemaCircle> circles;
  enum class Visit { kNew, kOpen, kDone };
  std::map<const SchemaNode*, Visit> visits;
  const auto visit = [&](const auto& self, const SchemaNode& node) -> void {
    Visit& state = visits[&node];
    if (state == Visit::kDone) return;
    if (state == Visit::kOpen) {
      circles.push_back({&node, "the schema refers to itself endlessly"});
      return;
    }
    state = Visit::kOpen;
    if (node.target) self(self, *node.target);
    else {
      for (const auto* group : {&node.all_of, &node.any_of, &node.one_of}) {
        for (const SchemaNode* part : *group) self(self, *part);
      }
      if (node.not_this) self(self, *node.not_this);
      for (const KindSchema& kind : node.kinds) self(self, kind.schema());
      for (const NamedSchema& property : node.properties) {
        const Value* filled = default_of(*property.schema);
        if (filled && (filled->map() || filled->list())) self(self, *property.schema);
      }
    }
    state = Visit::kDone;
  };
  for (const SchemaNode& node : nodes) visit(visit, node);
  return circles;
}

}  // namespace runner
