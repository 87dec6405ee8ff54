#include "runner/parent/compile/option_walk.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <system_error>

#include "runner/parent/schema/schema_node.h"
#include "runner/shared/stage/image_folder.h"

namespace runner {
namespace {

constexpr std::string_view kParent = "parent.";

/// Walks the options of the nodes together with the schemas that describe them.
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
  std::vector<const Value*> mappings_;  // from the stage's options down to the current mapping
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

/// Returns the first value in `value` that the user has set; null if everything in it is the
/// default.
const Value* set_in(const Value& value, const Value* fallback) {
  if (value.map()) {
    for (const Entry& entry : *value.map()) {
      const Value* const usual = fallback && fallback->map() ? fallback->find(entry.key) : nullptr;
      if (const Value* const found = set_in(entry.value, usual)) return found;
    }
    return nullptr;
  }
  if (value.is_default) return nullptr;
  return is_of_override(value.where) || !fallback || !same_data(value, *fallback) ? &value
                                                                                  : nullptr;
}

/// In a condition, "outputs.KEY" is an option of a stage that uses the outputs of the stage that
/// the condition belongs to.
constexpr std::string_view kOutputsPrefix = "outputs.";

bool takes_from(const Node& node, const Node& producer, const Graph& graph) {
  return std::ranges::any_of(
      node.inputs, [&](const Edge& edge) { return &graph.nodes[edge.from] == &producer; });
}

/// True if a data.image_folder stage has a validation part. It has one if it has folds; if its root
/// contains folders for the parts, including one for validation; or if its root does not contain
/// such folders or cannot be read, and split.validation is above 0.
bool has_validation(const Node& node) {
  const Value* const root = at_key(node.options, "root");
  bool has_parts = false, has_its_folder = false;
  std::error_code error;
  std::filesystem::directory_iterator at(root && root->reveal() ? *root->reveal() : "", error), end;
  for (; !error && at != end; at.increment(error)) {
    if (!is_part_folder(at->path())) continue;
    has_parts = true;
    has_its_folder |= part_of_folder(at->path().filename().native()) == "validation";
  }
  const OptionLookup look = [&](std::string_view path) { return at_key(node.options, path); };
  return holds("folds != null", look) ||
         (has_parts ? has_its_folder : holds("split.validation > 0", look));
}

/// Returns the lookup of `mapping`, extended with inputs.PORT.has_validation, which depends on the
/// files of the stage wired to the port.
OptionLookup with_files(const OptionMapping& mapping, const Graph& graph) {
  return [&mapping, &graph](std::string_view path) {
    static const Value kHas{true, {}}, kHasNone{false, {}};
    constexpr std::string_view kAsked = ".has_validation";
    if (!path.ends_with(kAsked)) return mapping.look(path);
    const WiredOption input =
        wired_option(graph, mapping.node, path.substr(path.find(kInputsPrefix)));
    return input.node && !has_validation(*input.node) ? &kHasNone : &kHas;
  };
}

/// True if the condition of `effect` holds. A condition on "outputs." holds if it is true for any
/// stage that consumes the node's outputs, or if no stage does.
bool has_effect(const Effect& effect, const OptionMapping& mapping, const Graph& graph) {
  if (effect.when.find(kOutputsPrefix) == std::string::npos)
    return holds(effect.when, with_files(mapping, graph));
  bool is_taken = false;
  for (const Node& node : graph.nodes) {
    if (!takes_from(node, mapping.node, graph)) continue;
    is_taken = true;
    const Value kind{node.kind, {}};
    const OptionLookup look = [&](std::string_view path) {
      if (!path.starts_with(kOutputsPrefix)) return mapping.look(path);
      path.remove_prefix(kOutputsPrefix.size());
      return path == "kind" ? &kind : at_key(node.options, path);
    };
    if (holds(effect.when, look)) return true;
  }
  return !is_taken;
}

}  // namespace

Diagnostics options_without_effect(const Value& resolved, const Graph& graph,
                                   const SchemaSet& schemas) {
  Diagnostics found;
  std::set<std::string> seen;  // nodes of one foreach have the same options
  const auto see = [&](const OptionMapping& mapping) {
    for (const NamedSchema& option : mapping.schema.properties) {
      const auto& effects = effects_of(*option.schema);
      const Value* const value = effects.empty() ? nullptr : mapping.options.find(option.name);
      const Value* const set = value ? set_in(*value, default_of(*option.schema)) : nullptr;
      if (!set) continue;
      const auto missed = std::ranges::find_if(
          effects, [&](const Effect& effect) { return !has_effect(effect, mapping, graph); });
      if (missed == effects.end()) continue;
      const std::string pointer = pointer_to(mapping.pointer, option.name);
      if (!seen.insert(pointer).second) continue;
      found.push_back(
          {ErrorCode::kOptionConflict,
           set->where,
           pointer,
           "'" + option.name + "' has no effect: " + filled_in(missed->why, mapping.look),
           "leave it out, or change what disables it",
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
  const Value* const python = resolved.find("python");
  const bool has_code = std::ranges::any_of(graph.nodes, [&](const Node& node) {
    const Kind* const kind = schemas.kind(node.kind);
    return kind && kind->runs_python();
  });
  if (python && !has_code)
    found.push_back({ErrorCode::kOptionConflict,
                     python->where,
                     "/python",
                     "'python' has no effect: the recipe has no Python code",
                     "leave it out",
                     {},
                     Severity::kWarning});
  return found;
}

std::vector<std::string> remarks_on_results(const Graph& graph, const SchemaSet& schemas) {
  std::vector<std::string> remarks;
  visit_options(graph, schemas, [&](const OptionMapping& mapping) {
    for (const NamedSchema& option : mapping.schema.properties) {
      const std::optional<Remark>& remark = followed(*option.schema).remark;
      const Value* const value = mapping.options.find(option.name);
      if (!remark || !value || !value->text() || !holds(remark->when, mapping.look)) continue;
      std::string text = filled_in(remark->text, mapping.look) + " " + *value->text();
      if (std::ranges::count(remarks, text) == 0) remarks.push_back(std::move(text));
    }
  });
  return remarks;
}

}  // namespace runner
