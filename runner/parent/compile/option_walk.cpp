#include "runner/parent/compile/option_walk.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "runner/parent/schema/schema_node.h"

namespace runner {
namespace {

constexpr std::string_view kParent = "parent.";

/// Walks the options of the nodes beside the schemas that describe them.
class OptionWalk {
 public:
  OptionWalk(const Graph& graph, const std::function<void(const OptionMapping&)>& visit)
      : graph_(graph), visit_(visit) {}

  void walk(const Node& node, const SchemaNode& schema) {
    node_ = &node;
    walk(node.options, schema, node.pointer);
  }

 private:
  void walk(const Value& value, const SchemaNode& schema, const std::string& pointer) {
    const SchemaNode& node = followed(schema);
    for (const SchemaNode* part : node.all_of) walk(value, *part, pointer);
    if (value.map()) walk_mapping(value, node, pointer);
    if (const auto* list = value.list(); list && node.items) {
      for (std::size_t i = 0; i < list->size(); ++i)
        walk((*list)[i], *node.items, pointer_to(pointer, std::to_string(i)));
    }
    for (const auto* group : {&node.any_of, &node.one_of}) {
      for (const SchemaNode* part : *group) walk(value, *part, pointer);
    }
  }

  void walk_mapping(const Value& mapping, const SchemaNode& schema, const std::string& pointer) {
    if (const SchemaNode* kind = schema.kinds_in ? kind_of(schema, mapping) : nullptr)
      walk(mapping, *kind, pointer);
    mappings_.push_back(&mapping);
    const OptionLookup look = [&](std::string_view path) { return find(path); };
    visit_({*node_, mapping, schema, pointer, look});
    for (const Entry& entry : *mapping.map()) {
      if (const SchemaNode* property = schema.property(entry.key))
        walk(entry.value, *property, pointer_to(pointer, entry.key));
    }
    mappings_.pop_back();
  }

  const Value* find(std::string_view path) const {
    std::size_t depth = mappings_.size() - 1;
    for (; depth > 0 && path.starts_with(kParent); --depth) path.remove_prefix(kParent.size());
    if (depth == 0 && path.starts_with(kInputsPrefix)) {
      const WiredOption input = wired_option(graph_, *node_, path);
      static const Value kWired{"wired", {}};
      if (!input.node) return nullptr;
      if (input.option == "kind")
        return &kinds_.try_emplace(input.node->kind, Value{input.node->kind, {}}).first->second;
      return input.option.empty() ? &kWired : at_key(input.node->options, input.option);
    }
    return at_key(*mappings_[depth], path);
  }

  const Graph& graph_;
  const std::function<void(const OptionMapping&)>& visit_;
  const Node* node_ = nullptr;
  mutable std::map<std::string, Value> kinds_;  // by their names
  std::vector<const Value*> mappings_;  // from the stage's options to the mapping that is looked at
};

}  // namespace

void visit_options(const Graph& graph, const SchemaSet& schemas,
                   const std::function<void(const OptionMapping&)>& visit) {
  OptionWalk walk(graph, visit);
  for (const Node& node : graph.nodes) {
    const Kind* kind = schemas.kind(node.kind);
    if (const SchemaNode* schema = kind ? schemas.node(kind->file) : nullptr)
      walk.walk(node, *schema);
  }
}

void visit_options_of(const Value& options, const SchemaNode& schema, const std::string& pointer,
                      const std::function<void(const OptionMapping&)>& visit) {
  Node alone;
  alone.options = options;
  alone.pointer = pointer;
  const Graph graph;
  OptionWalk(graph, visit).walk(alone, schema);
}

WiredOption wired_option(const Graph& graph, const Node& node, std::string_view path) {
  path.remove_prefix(kInputsPrefix.size());
  const std::size_t dot = std::min(path.find('.'), path.size());
  const auto edge = std::ranges::find(node.inputs, path.substr(0, dot), &Edge::input);
  if (edge == node.inputs.end()) return {};
  const Node& from = graph.nodes[edge->from];
  const std::string_view rest = path.substr(std::min(dot + 1, path.size()));
  if (rest.starts_with(kInputsPrefix)) return wired_option(graph, from, rest);
  return {&from, std::string(rest)};
}

namespace {

bool is_of_override(const Location& where) {
  return where.source && (where.source->name.starts_with("override") ||
                          where.source->name.starts_with("sweep.params"));
}

/// The first place in `value` at which somebody has written something; null: all of it is as it
/// would be anyway.
const Value* written_in(const Value& value, const Value* fallback) {
  if (value.map()) {
    for (const Entry& entry : *value.map()) {
      const Value* const usual = fallback && fallback->map() ? fallback->find(entry.key) : nullptr;
      if (const Value* const found = written_in(entry.value, usual)) return found;
    }
    return nullptr;
  }
  if (value.is_default) return nullptr;
  return is_of_override(value.where) || !fallback || !same_data(value, *fallback) ? &value
                                                                                  : nullptr;
}

}  // namespace

Diagnostics options_without_effect(const Value& resolved, const Graph& graph,
                                   const SchemaSet& schemas) {
  Diagnostics found;
  std::set<std::string> seen;  // nodes of one foreach share their options
  const auto see = [&](const OptionMapping& mapping) {
    for (const NamedSchema& option : mapping.schema.properties) {
      const auto& effects = effects_of(*option.schema);
      const Value* const value = effects.empty() ? nullptr : mapping.options.find(option.name);
      const Value* const written = value ? written_in(*value, default_of(*option.schema)) : nullptr;
      if (!written) continue;
      const auto missed = std::ranges::find_if(
          effects, [&](const Effect& effect) { return !holds(effect.when, mapping.look); });
      if (missed == effects.end()) continue;
      const std::string pointer = pointer_to(mapping.pointer, option.name);
      if (!seen.insert(pointer).second) continue;
      found.push_back(
          {ErrorCode::kOptionConflict,
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
