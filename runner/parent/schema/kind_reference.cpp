#include "runner/parent/schema/kind_reference.h"

#include <algorithm>
#include <map>

#include <nlohmann/json.hpp>

#include "runner/parent/schema/option_listing.h"
#include "runner/parent/schema/published_schema.h"

namespace runner {
namespace {

/// A text as a cell of a table shows it.
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
  std::string table = "| option | takes | default | meaning |\n|---|---|---|---|\n";
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
