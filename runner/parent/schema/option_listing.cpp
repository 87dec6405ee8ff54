#include "runner/parent/schema/option_listing.h"

#include <algorithm>
#include <map>

#include <nlohmann/json.hpp>

#include "runner/parent/schema/published_schema.h"
#include "runner/parent/schema/schema_node.h"

namespace runner {
namespace {

constexpr int kDeepestListing = 16;  // a kind may contain a mapping with its own kind

std::string kinds_phrase(const SchemaNode& schema) {
  std::string names;
  for (std::size_t i = 0; i < schema.kinds.size(); ++i) {
    const bool is_last = i + 1 == schema.kinds.size();
    names += (i == 0 ? "" : is_last ? " or " : ", ") + schema.kinds[i].name;
  }
  return names;
}

std::string unit_of(const SchemaNode& node) {
  const SchemaNode* at = &node;
  while (at->unit.empty() && at->target) at = at->target;
  return at->unit;
}

std::string takes(const SchemaNode& node) {
  const SchemaNode& schema = followed(node);
  if (schema.kinds_in) return "a mapping of kind " + kinds_phrase(schema);
  if (schema.types == kArrayType && schema.items)
    return "a list, each " + expected(*schema.items, unit_of(node));
  if (schema.types == 0 && !schema.allowed && schema.any_of.empty() && schema.one_of.empty())
    return "anything";
  return expected(node);
}

class Listing {
 public:
  std::vector<Option> options;

  /// Adds the options of the mapping at `key`. `given` is the default of the mapping itself, which
  /// takes precedence over the defaults of its options; null if there is none.
  void visit(const SchemaNode& node, const std::string& key, const std::string& stage,
             const std::string& owner, const Value* given, int depth = 0) {
    if (depth > kDeepestListing) return;
    const SchemaNode& schema = followed(node);
    for (const NamedSchema& property : schema.properties)
      add(property, schema, key, stage, owner, given, depth);
    if (schema.common) {
      for (const NamedSchema& property : schema.common->properties) {
        if (!schema.property(property.name)) add(property, schema, key, stage, owner, given, depth);
      }
    }
    if (schema.kinds_in && schema.kinds_in != "*")
      visit_kinds(schema, key, stage, owner, given, depth);
    for (const auto* group : {&schema.all_of, &schema.any_of, &schema.one_of}) {
      for (const SchemaNode* part : *group) visit(*part, key, stage, owner, given, depth + 1);
    }
  }

 private:
  void visit_kinds(const SchemaNode& schema, const std::string& key, const std::string& stage,
                   const std::string& owner, const Value* given, int depth) {
    Option kind{key + ".kind",
                stage,
                owner,
                kinds_phrase(schema),
                "",
                std::nullopt,
                "Selects the variant; the other options depend on it.",
                schema.default_kind.empty()};
    if (!schema.default_kind.empty()) kind.fallback = Value{schema.default_kind, {}};
    options.push_back(std::move(kind));
    for (const KindSchema& one : schema.kinds) {
      const SchemaNode& node = one.schema();
      const bool is_given = given && kind_of(schema, *given) == &node;
      visit(node, key, stage, *schema.kinds_in + "/" + one.name, is_given ? given : nullptr,
            depth + 1);
    }
  }

  void add(const NamedSchema& property, const SchemaNode& mapping, const std::string& key,
           const std::string& stage, const std::string& owner, const Value* given, int depth) {
    const SchemaNode& node = *property.schema;
    if (property.name == "kind") return;  // the same for all options of a kind
    const Value* const own = given ? given->find(property.name) : nullptr;
    const Value* const fallback = own ? own : default_of(node);
    Option option{key.empty() ? property.name : key + "." + property.name,
                  stage,
                  owner,
                  takes(node),
                  unit_of(node),
                  fallback ? std::optional(*fallback) : std::nullopt,
                  description_of(node)};
    option.required = std::ranges::count(mapping.required, property.name) > 0;
    const std::string below = option.key;
    options.push_back(std::move(option));
    visit(node, below, stage, owner, fallback, depth + 1);
    if (const SchemaNode* items = followed(node).items)
      visit(*items, below, stage, owner, nullptr, depth + 1);
  }
};

}  // namespace

std::string takes_phrase(const Option& option) {
  const bool has_unit = option.unit.empty() || option.takes.find(option.unit) != std::string::npos;
  return option.takes + (has_unit ? "" : " (" + option.unit + ")");
}

std::string default_text(const Option& option) {
  if (!option.fallback) return "";
  return option.fallback->text() != nullptr ? bare(*option.fallback)
                                            : to_json(*option.fallback).dump();
}

std::vector<Option> all_options(const SchemaSet& schemas) {
  Listing listing;
  listing.visit(*schemas.node("recipe.schema.json"), "", "", "", nullptr);
  for (const Kind& kind : schemas.kinds()) {
    listing.visit(*schemas.node(kind.file), kind.family, kind.name, kind.name, nullptr);
  }
  return std::move(listing.options);
}

std::vector<Option> options_of(const SchemaSet& schemas, std::string_view kind) {
  const Kind* stage = schemas.kind(kind);
  const std::string name(kind);
  const SchemaNode* node = schemas.node(stage ? stage->file : name + ".schema.json");
  Listing listing;
  if (node) listing.visit(*node, "", stage ? name : "", name, nullptr);
  // Options declared by a nested mapping's kind are listed where that kind is explained.
  std::erase_if(listing.options, [&](const Option& option) { return option.owner != name; });
  return std::move(listing.options);
}

namespace {

using Json = nlohmann::ordered_json;

std::string ports_line(std::span<const Port> ports) {
  std::string line;
  for (const Port& port : ports) {
    line += (line.empty() ? "" : ", ") + port.name + ": " + std::string(name(port.type));
    if (port.many) line += ", many";
    if (port.optional) line += " (optional)";
  }
  return line;
}

Json ports_json(std::span<const Port> ports, bool inputs) {
  Json list = Json::array();
  for (const Port& port : ports) {
    Json json = {{"name", port.name}, {"type", name(port.type)}};
    if (inputs) json.update({{"optional", port.optional}, {"many", port.many}});
    list.push_back(std::move(json));
  }
  return list;
}

}  // namespace

std::string ports_text(const Kind& kind, const std::string& margin) {
  std::string text;
  if (!kind.inputs.empty()) text += margin + "in   " + ports_line(kind.inputs) + "\n";
  if (!kind.outputs.empty()) text += margin + "out  " + ports_line(kind.outputs) + "\n";
  return text;
}

Json kind_json(const Kind& kind) {
  return {{"name", kind.name},
          {"family", kind.family},
          {"summary", kind.summary},
          {"version", kind.version},
          {"inputs", ports_json(kind.inputs, true)},
          {"outputs", ports_json(kind.outputs, false)},
          {"cacheable", kind.cacheable}};
}

std::string stages_text(const SchemaSet& schemas) {
  std::size_t width = 0;
  for (const Kind& kind : schemas.kinds()) width = std::max(width, kind.name.size());
  std::string text, family;
  for (const Kind& kind : schemas.kinds()) {
    if (kind.family != family) text += (text.empty() ? "" : "\n") + kind.family + "\n";
    family = kind.family;
    text += "  " + kind.name + std::string(width - kind.name.size() + 2, ' ') + kind.summary + "\n";
    text += ports_text(kind, "    ");
  }
  return text;
}

Json stages_json(const SchemaSet& schemas) {
  Json kinds = Json::array();
  for (const Kind& kind : schemas.kinds()) kinds.push_back(kind_json(kind));
  return {{"kinds", std::move(kinds)}};
}

namespace {

/// Escapes `text` for a cell of a Markdown table.
std::string cell(std::string_view text) {
  std::string shown;
  for (const char c : text) {
    if (c == '|' || c == '*' || c == '<') shown += '\\';
    shown += c == '\n' ? ' ' : c;
  }
  return shown;
}

std::string as_code(const std::string& text) { return text.empty() ? "" : "`" + text + "`"; }

std::string options_table(const SchemaSet& schemas, const std::string& kind) {
  const std::vector<Option> options = options_of(schemas, kind);
  if (options.empty()) return "It has no options.\n";
  std::string table = "| option | value | default | meaning |\n|---|---|---|---|\n";
  for (const Option& option : options) {
    const std::string fallback = option.required ? "required" : as_code(default_text(option));
    table += "| " + as_code(option.key) + " | " + cell(takes_phrase(option)) + " | " + fallback +
             " | " + cell(option.help) + " |\n";
  }
  return table;
}

std::string metrics_line(const Kind& kind) {
  std::string line;
  for (const DeclaredMetric& metric : kind.metrics) {
    line += (line.empty() ? "" : ", ") + as_code(metric.name) +
            (metric.is_conditional ? " (depends on options)" : "");
  }
  return line;
}

std::string section(const SchemaSet& schemas, const std::string& name) {
  std::string text =
      "\n## " + name + "\n\n" + schemas.document(name)->value("description", "") + "\n\n";
  if (const Kind* kind = schemas.kind(name)) {
    if (const std::string ports = ports_text(*kind, ""); !ports.empty())
      text += "```text\n" + ports + "```\n\n";
    if (kind->cacheable) text += "A later run reuses its results by default.\n\n";
    if (!kind->metrics.empty()) text += "Metrics: " + metrics_line(*kind) + ".\n\n";
  }
  return text + options_table(schemas, name);
}

}  // namespace

std::string kinds_markdown(const SchemaSet& schemas) {
  std::map<std::string, std::vector<std::string>> families;
  for (const Kind& kind : schemas.kinds()) families[kind.family].push_back(kind.name);
  for (const std::string& folder : schemas.sub_kind_folders()) {
    for (const std::string& kind : schemas.sub_kinds(folder)) {
      families[folder.substr(0, folder.find('/'))].push_back(folder + "/" + kind);
    }
  }
  std::string text =
      "# recipe\n\nThe options of a whole recipe; every other mapping at its top is a stage.\n\n";
  text += options_table(schemas, "recipe");
  for (const auto& [family, kinds] : families) {
    text += "\n# " + family + "\n";
    for (const std::string& kind : kinds) text += section(schemas, kind);
  }
  return text;
}

}  // namespace runner
