#include "runner/parent/config/provenance.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "runner/parent/config/secret.h"
#include "runner/parent/config/yaml_writer.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

/// Returns the value at the dotted `key` below `value` or, if the path ends early at a scalar, that
/// scalar. Null if there is neither.
const Value* said_about(const Value& value, std::string_view key) {
  if (const Value* found = at_key(value, key)) return found;
  const std::size_t dot = key.rfind('.');
  const Value* around = dot == key.npos ? &value : said_about(value, key.substr(0, dot));
  return around && !around->map() && !around->list() ? around : nullptr;
}

/// True if `key` is the dotted key `above`, or below it.
bool is_within(std::string_view key, std::string_view above) {
  return key.starts_with(above) && (key.size() == above.size() || key[above.size()] == '.');
}

void add(const Override& override, std::string_view key, std::vector<Write>& result) {
  if (is_within(override.key, key)) {
    const bool is_deleted = override.kind == OverrideKind::kDelete;
    result.push_back({override.where, is_deleted ? std::nullopt : override.value,
                      override.edit ? &*override.edit : nullptr});
    return;
  }
  if (!is_within(key, override.key)) return;
  const std::string_view below = key.substr(override.key.size() + 1);
  if (override.kind == OverrideKind::kDelete) result.push_back({override.where, std::nullopt});
  else if (override.edit) result.push_back({override.where, std::nullopt, &*override.edit});
  else if (const Value* value = override.value ? said_about(*override.value, below) : nullptr)
    result.push_back({override.where, *value});
}

/// Formats `value` on one line.
std::string line_of(const Value& value) {
  const nlohmann::ordered_json json = to_json(value);
  return json.is_string() ? json.get<std::string>() : json.dump();
}

std::string said_by(const Write& write) {
  if (write.edit) return "changes the existing value";
  return write.value ? line_of(*write.value) : "deletes it";
}

/// True if `source` is an override. Config files end in .yaml, so no file is mistaken for an
/// override.
bool is_typed(const SourceText& source) {
  return source.name.starts_with("override ") && !source.name.ends_with(".yaml");
}

Json origin_json(const Value& value) {
  if (value.is_default) return {{"from", "default"}};
  if (!value.where.source) return {{"from", "unknown"}};
  const SourceText& source = *value.where.source;
  if (is_typed(source))
    return {{"from", "override"}, {"override", without_secrets(source.contents)}};
  return {{"from", "file"},
          {"file", source.name},
          {"line", value.where.line},
          {"column", value.where.column}};
}

void add_origins(const Value& value, const std::string& pointer, Json& origins) {
  if (value.map() && !value.map()->empty()) {
    for (const Entry& entry : *value.map())
      add_origins(entry.value, pointer_to(pointer, entry.key), origins);
  } else if (value.list() && !value.list()->empty()) {
    for (std::size_t i = 0; i < value.list()->size(); ++i)
      add_origins((*value.list())[i], pointer_to(pointer, std::to_string(i)), origins);
  } else {
    origins[pointer] = origin_json(value);
  }
}

}  // namespace

Json origins_json(const Value& value) {
  Json origins = Json::object();
  add_origins(value, "", origins);
  return origins;
}

std::string origin_text(const Location& where) {
  if (!where.source) return "";
  const SourceText& source = *where.source;
  return is_typed(source) ? "override '" + without_secrets(source.contents) + "'"
                          : source.name + ":" + std::to_string(where.line);
}

namespace {

/// Returns `value` as YAML, with the result of `origin_of` at the end of each line that has one.
template <typename OriginOf>
std::string annotated_yaml(const Value& value, const OriginOf& origin_of) {
  constexpr std::size_t kWidest = 60;  // longer lines do not push all origins to the right
  const std::vector<YamlLine> lines = yaml_lines(value);
  std::size_t width = 0;
  for (const YamlLine& line : lines) {
    if (line.text.size() <= kWidest) width = std::max(width, line.text.size());
  }
  std::string text;
  for (const auto& [line, shown] : lines) {
    const bool opens =
        (shown->list() && !shown->list()->empty()) || (shown->map() && !shown->map()->empty());
    const std::string origin = opens ? "" : origin_of(*shown);
    text += line;
    if (!origin.empty())
      text += std::string(line.size() < width ? width - line.size() : 0, ' ') + "    # " + origin;
    text += '\n';
  }
  return text;
}

/// Adds the JSON pointer of each value in `value`.
void add_pointers(const Value& value, const std::string& pointer,
                  std::map<const Value*, std::string>& pointers) {
  pointers.emplace(&value, pointer);
  if (const auto* map = value.map()) {
    for (const Entry& entry : *map)
      add_pointers(entry.value, pointer_to(pointer, entry.key), pointers);
  } else if (const auto* list = value.list()) {
    for (std::size_t i = 0; i < list->size(); ++i)
      add_pointers((*list)[i], pointer_to(pointer, std::to_string(i)), pointers);
  }
}

/// Returns an element of origins_json() as origin_text() would; empty for any other JSON.
std::string origin_text_of(const Json& origin) {
  const auto text = [&](const char* key) {
    const auto found = origin.is_object() ? origin.find(key) : origin.end();
    return found != origin.end() && found->is_string() ? found->get<std::string>() : "";
  };
  const std::string from = text("from");
  if (from == "default") return from;
  if (from == "override") return "override '" + text("override") + "'";
  if (from != "file" || !origin.contains("line") || !origin["line"].is_number_integer()) return "";
  return text("file") + ":" + origin["line"].dump();
}

}  // namespace

std::string yaml_with_origins(const Value& value) {
  return annotated_yaml(value, [](const Value& shown) {
    return shown.is_default ? "default" : origin_text(shown.where);
  });
}

std::string yaml_with_origins(const Value& value, const Json& origins) {
  std::map<const Value*, std::string> pointers;
  add_pointers(value, "", pointers);
  return annotated_yaml(value, [&](const Value& shown) {
    const auto pointer = pointers.find(&shown);
    if (pointer == pointers.end() || !origins.is_object()) return std::string();
    const auto origin = origins.find(pointer->second);
    return origin == origins.end() ? "" : origin_text_of(*origin);
  });
}

std::vector<Write> writes(std::span<const Value> layers, std::span<const Override> overrides,
                          std::string_view key) {
  std::vector<Write> result;
  for (const Value& layer : layers) {
    if (const Value* value = said_about(layer, key)) result.push_back({value->where, *value});
  }
  for (const Override& override : overrides) add(override, key, result);
  return result;
}

std::string provenance_text(std::string_view key, const Value* value,
                            const std::optional<Value>& fallback,
                            const std::vector<Write>& writes) {
  std::vector<std::pair<std::string, std::string>> lines;
  if (fallback) lines.push_back({"default", line_of(*fallback)});
  for (const Write& write : writes) lines.push_back({origin_text(write.where), said_by(write)});
  std::size_t width = 0;
  for (const auto& [origin, said] : lines) width = std::max(width, origin.size());
  std::string text = std::string(key) + ": " + (value ? line_of(*value) : "not set") + "\n";
  const bool marks_last = lines.size() > 1 && !(value && value->map());  // mappings are merged
  for (const auto& line : lines) {
    text += "  " + line.first + std::string(width - line.first.size() + 4, ' ') + line.second;
    text += marks_last && &line == &lines.back() ? "    <- this one is used\n" : "\n";
  }
  return text;
}

nlohmann::ordered_json provenance_json(std::string_view key, const Value* value,
                                       const std::optional<Value>& fallback,
                                       const std::vector<Write>& writes) {
  Json json = {
      {"key", key}, {"value", value ? to_json(*value) : Json()}, {"writes", Json::array()}};
  if (fallback) json["default"] = to_json(*fallback);
  for (const Write& write : writes) {
    Json entry = {{"origin", origin_text(write.where)}};
    if (write.value) entry["value"] = to_json(*write.value);
    else entry[write.edit ? "edited" : "deleted"] = true;
    json["writes"].push_back(std::move(entry));
  }
  return json;
}

namespace {

std::string dotted(const std::vector<std::string>& path) {
  std::string key;
  for (const std::string& name : path) key += (key.empty() ? "" : ".") + name;
  return key;
}

void collect(const std::vector<std::string>& path, const Value* before, const Value* after,
             std::vector<Difference>& result) {
  const auto below = [&](const std::string& name) {
    std::vector<std::string> longer = path;
    longer.push_back(name);
    return longer;
  };
  const auto opens = [](const Value* value) {
    return value && value->map() && !value->map()->empty();
  };
  const bool both_map = before && after && before->map() && after->map();
  if (both_map || (opens(before) && !after) || (opens(after) && !before)) {
    if (before) {
      for (const Entry& entry : *before->map()) {
        collect(below(entry.key), &entry.value, after ? after->find(entry.key) : nullptr, result);
      }
    }
    if (after) {
      for (const Entry& entry : *after->map()) {
        if (!before || !before->find(entry.key))
          collect(below(entry.key), nullptr, &entry.value, result);
      }
    }
    return;
  }
  if (before && after && same_data(*before, *after)) return;
  result.push_back({dotted(path), before ? std::optional(*before) : std::nullopt,
                    after ? std::optional(*after) : std::nullopt, path});
}

std::string text_of(const Value& value) {
  const nlohmann::ordered_json json = to_json(value);
  return json.is_string() && value.text() && value.secret_as.empty() ? *value.text() : json.dump();
}

std::string both_of(const std::string& a, const std::string& b) {
  return a.empty() || b.empty() ? a + b : a + " -> " + b;
}

}  // namespace

std::vector<Difference> differences(const Value& before, const Value& after) {
  std::vector<Difference> result;
  collect({}, &before, &after, result);
  return result;
}

std::string differences_text(const std::vector<Difference>& differences) {
  constexpr std::size_t kWidest = 60;  // longer lines do not push all origins to the right
  std::vector<std::pair<std::string, std::string>> lines;
  std::size_t width = 0;
  for (const auto& [key, before, after, path] : differences) {
    const char mark = before && after ? '~' : before ? '-' : '+';
    const std::string values =
        both_of(before ? text_of(*before) : "", after ? text_of(*after) : "");
    lines.push_back({std::string(1, mark) + " " + key + ": " + values,
                     both_of(before ? origin_text(before->where) : "",
                             after ? origin_text(after->where) : "")});
    if (lines.back().first.size() <= kWidest) width = std::max(width, lines.back().first.size());
  }
  std::string text;
  for (const auto& [line, origin] : lines) {
    const std::size_t padding = line.size() < width ? width - line.size() : 0;
    text += line + (origin.empty() ? "" : std::string(padding, ' ') + "    # " + origin) + "\n";
  }
  return text;
}

nlohmann::ordered_json differences_json(const std::vector<Difference>& differences) {
  auto list = nlohmann::ordered_json::array();
  for (const auto& [key, before, after, path] : differences) {
    nlohmann::ordered_json entry = {{"key", key}};
    if (before)
      entry.update({{"before", to_json(*before)}, {"before_origin", origin_text(before->where)}});
    if (after)
      entry.update({{"after", to_json(*after)}, {"after_origin", origin_text(after->where)}});
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace runner
