#include "runner/graph/broken_rules.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "runner/schema/schema_node.h"
#include "runner/value/place.h"

namespace runner {
namespace {

constexpr std::string_view kParent = "parent.", kInputs = "inputs.";

/// Walks the options of the nodes beside the schemas that describe them.
class RuleCheck {
 public:
  explicit RuleCheck(const Graph& graph) : graph_(graph) {}

  Diagnostics run(const SchemaSet& schemas) {
    for (const Node& node : graph_.nodes) {
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
    for (const SchemaNode* part : node.all_of) visit(value, *part, pointer);
    if (value.map()) visit_mapping(value, node, pointer);
    if (const auto* list = value.list(); list && node.items) {
      for (std::size_t i = 0; i < list->size(); ++i)
        visit((*list)[i], *node.items, pointer_to(pointer, std::to_string(i)));
    }
    for (const auto* group : {&node.any_of, &node.one_of}) {
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
      const WiredOption input = wired(path);
      static const Value kWired{"wired", {}};
      if (!input.node) return nullptr;
      return input.option.empty() ? &kWired : at_key(input.node->options, input.option);
    }
    return at_key(*mappings_[depth], path);
  }

  /// What "inputs.model.patch_size" names.
  struct WiredOption {
    const Node* node = nullptr;  ///< null: nothing is wired to the port
    std::string option = {};     ///< empty: the node itself
  };

  WiredOption wired(std::string_view path) const {
    path.remove_prefix(kInputs.size());
    const std::size_t dot = std::min(path.find('.'), path.size());
    const auto edge = std::ranges::find(node_->inputs, path.substr(0, dot), &Edge::input);
    if (edge == node_->inputs.end()) return {};
    return {&graph_.nodes[edge->from], std::string(path.substr(std::min(dot + 1, path.size())))};
  }

  /// Nodes of one foreach share their mistakes.
  void add(const Rule& rule, const OptionLookup& look, const std::string& mapping) {
    const WiredOption of_input = rule.at.starts_with(kInputs) ? wired(rule.at) : WiredOption();
    const Value& around = of_input.node ? of_input.node->options : *mappings_.back();
    std::string place = of_input.node ? of_input.option : rule.at;
    const Value* option = at_key(around, place);
    std::ranges::replace(place, '.', '/');
    const std::string pointer = (of_input.node ? of_input.node->pointer : mapping) + "/" + place;
    std::string message = filled_in(rule.message, look);
    if (!seen_.insert(pointer + message).second) return;
    errors_.push_back(
        {ErrorCode::kOptionConflict, place_of(option ? *option : around), pointer, std::move(message), rule.help});
  }

  const Graph& graph_;
  const Node* node_ = nullptr;
  std::vector<const Value*> mappings_;  // from the stage's options to the mapping that is looked at
  std::set<std::string> seen_;
  Diagnostics errors_;
};

}  // namespace

Diagnostics broken_rules(const Graph& graph, const SchemaSet& schemas) { return RuleCheck(graph).run(schemas); }

}  // namespace runner
