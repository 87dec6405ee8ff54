#include "runner/graph/broken_rules.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "runner/schema/schema_node.h"

namespace runner {
namespace {

constexpr std::string_view kParent = "parent.", kInputs = "inputs.";

/// Walks the options of the nodes beside the schemas that describe them.
class RuleCheck {
 public:
  Diagnostics run(const Graph& graph, const SchemaSet& schemas) {
    for (const Node& node : graph.nodes) {
      const Kind* kind = schemas.kind(node.kind);
      const SchemaNode* schema = kind ? schemas.node(kind->file) : nullptr;
      if (!schema) continue;
      node_ = &node;
      visit(node.options, *schema, node.pointer);
    }
    return std::move(errors_);
  }

 private:
  void visit(const Value& value, const SchemaNode& schema, const std::string& pointer) {
    const SchemaNode& node = followed(schema);
    if (value.map()) visit_mapping(value, node, pointer);
    if (const auto* list = value.list(); list && node.items) {
      for (std::size_t i = 0; i < list->size(); ++i)
        visit((*list)[i], *node.items, pointer_to(pointer, std::to_string(i)));
    }
    for (const auto* group : {&node.all_of, &node.any_of, &node.one_of}) {
      for (const SchemaNode* part : *group) visit(value, *part, pointer);
    }
  }

  void visit_mapping(const Value& mapping, const SchemaNode& schema, const std::string& pointer) {
    if (const SchemaNode* kind = schema.kinds_in ? kind_of(schema, mapping) : nullptr) visit(mapping, *kind, pointer);
    mappings_.push_back(&mapping);
    const OptionLookup look = [&](std::string_view path) { return find(path); };
    for (const Rule& rule : schema.rules) {
      if (!holds(rule.condition, look)) add(rule, look, pointer);
    }
    for (const Entry& entry : *mapping.map()) {
      if (const SchemaNode* property = schema.property(entry.key))
        visit(entry.value, *property, pointer_to(pointer, entry.key));
    }
    mappings_.pop_back();
  }

  const Value* find(std::string_view path) const {
    std::size_t depth = mappings_.size() - 1;
    for (; depth > 0 && path.starts_with(kParent); --depth) path.remove_prefix(kParent.size());
    if (depth == 0 && path.starts_with(kInputs)) {
      const bool is_wired =
          std::ranges::find(node_->inputs, path.substr(kInputs.size()), &Edge::input) != node_->inputs.end();
      static const Value kWired{"wired", {}};
      return is_wired ? &kWired : nullptr;
    }
    return at_key(*mappings_[depth], path);
  }

  /// Nodes of one foreach share their mistakes.
  void add(const Rule& rule, const OptionLookup& look, const std::string& mapping) {
    const Value* option = at_key(*mappings_.back(), rule.at);
    std::string place = rule.at;
    std::ranges::replace(place, '.', '/');
    const std::string pointer = mapping + "/" + place;
    std::string message = filled_in(rule.message, look);
    if (!seen_.insert(pointer + message).second) return;
    errors_.push_back({ErrorCode::kOptionConflict, (option ? *option : *mappings_.back()).where, pointer,
                       std::move(message), rule.help});
  }

  const Node* node_ = nullptr;
  std::vector<const Value*> mappings_;  // from the stage's options to the mapping that is looked at
  std::set<std::string> seen_;
  Diagnostics errors_;
};

}  // namespace

Diagnostics broken_rules(const Graph& graph, const SchemaSet& schemas) { return RuleCheck().run(graph, schemas); }

}  // namespace runner
