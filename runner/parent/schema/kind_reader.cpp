#include "runner/parent/schema/kind_reader.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kEnding = ".schema.json";

std::vector<Port> read_ports(const std::string& path, const std::string& keyword,
                             const Json& document, Diagnostics& errors) {
  std::vector<Port> ports;
  if (!document.contains(keyword)) return ports;
  for (const auto& [name, json] : document[keyword].items()) {
    const auto fail = [&, name = name](const std::string& message) {
      errors.push_back({ErrorCode::kBadSchema,
                        {},
                        pointer_to("/" + keyword, name),
                        "schemas/" + path + ": " + message,
                        ""});
    };
    const Json type = json.is_object() && json.contains("type") ? json["type"] : json;
    const auto known = type.is_string() ? artifact_type(type.get<std::string>()) : std::nullopt;
    if (!known) {
      fail("no artifact has the type " + type.dump(-1, ' ', true, Json::error_handler_t::replace));
      continue;
    }
    Port port{name, *known};
    if (json.is_object()) {
      for (const auto& [key, value] : json.items()) {
        const bool flag = value.is_boolean() && value.get<bool>();
        if (key == "optional" && value.is_boolean() && keyword == "x-inputs") port.optional = flag;
        else if (key == "many" && value.is_boolean() && keyword == "x-inputs") port.many = flag;
        else if (key != "type") fail("a port does not accept '" + key + "' here");
      }
    }
    ports.push_back(std::move(port));
  }
  return ports;
}

/// Reads x-metrics. A metric with a trailing '?', such as "validation/auc?", is conditional.
std::vector<DeclaredMetric> read_metrics_of(const Json& document) {
  std::vector<DeclaredMetric> metrics;
  for (const Json& one : document.value("x-metrics", Json::array())) {
    std::string name = one.get<std::string>();
    const bool is_conditional = name.ends_with('?');
    if (is_conditional) name.pop_back();
    metrics.push_back({std::move(name), is_conditional});
  }
  return metrics;
}

/// True if a mapping's schema has the option at a path such as "towers/tokenizer/entry".
bool has_option(const Json& schema, std::string_view path) {
  if (path.empty()) return true;
  const std::string name(path.substr(0, path.find('/')));
  const std::string_view rest = path.substr(std::min(path.size(), name.size() + 1));
  if (const Json::json_pointer option("/properties/" + name); schema.contains(option))
    return has_option(schema[option], rest);
  return std::ranges::any_of(schema.value("anyOf", Json::array()),
                             [&](const Json& one) { return has_option(one, path); });
}

}  // namespace

/// A * matches any non-empty string; a # matches a number.
bool DeclaredMetric::covers(std::string_view metric) const {
  const std::size_t open = name.find_first_of("*#");
  if (open == name.npos) return metric == name;
  const std::string_view before = std::string_view(name).substr(0, open),
                         after = std::string_view(name).substr(open + 1);
  if (metric.size() <= before.size() + after.size() || !metric.starts_with(before) ||
      !metric.ends_with(after))
    return false;
  const std::string_view there = metric.substr(open, metric.size() - before.size() - after.size());
  return name[open] == '*' || there.find_first_not_of("0123456789") == there.npos;
}

std::string title_of(const std::string& path) {
  std::string title = path.substr(0, path.size() - kEnding.size());
  if (is_stage_kind(path)) std::ranges::replace(title, '/', '.');
  return title;
}

bool is_stage_kind(std::string_view path) { return std::ranges::count(path, '/') == 1; }

Kind read_kind(const std::string& path, const Json& document, Diagnostics& errors) {
  Kind kind;
  const auto fail = [&](const std::string& pointer, const std::string& message) {
    errors.push_back({ErrorCode::kBadSchema, {}, pointer, "schemas/" + path + ": " + message, ""});
  };
  const auto text = [&](const char* key) {
    return document.contains(key) ? document[key].get<std::string>() : "";
  };
  kind.name = title_of(path);
  kind.family = path.substr(0, path.find('/'));
  kind.summary = text("description");
  if (kind.summary.empty() || kind.summary.find('\n') != std::string::npos)
    fail("/description", "the description of a kind must be one line");
  if (document.value("type", Json()) != "object")
    fail("/type", "the type of a kind's schema must be 'object'");
  const Json::json_pointer named("/properties/kind/const");
  if (!document.contains(named) || document[named] != kind.name) {
    fail("/properties/kind", "the property 'kind' must be {\"const\": \"" + kind.name + "\"}");
  }
  kind.version = document.value("x-version", 1);
  kind.inputs = read_ports(path, "x-inputs", document, errors);
  kind.outputs = read_ports(path, "x-outputs", document, errors);
  kind.metrics = read_metrics_of(document);
  kind.cacheable = document.value("x-cacheable", false);
  kind.python_entries = document.value("x-python", std::vector<std::string>());
  for (const std::string& entry : kind.python_entries) {
    if (!has_option(document, entry)) fail("/x-python", "there is no option '" + entry + "'");
  }
  kind.file = path;
  return kind;
}

}  // namespace runner
