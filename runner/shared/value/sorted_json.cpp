#include "runner/shared/value/sorted_json.h"

#include <algorithm>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/shared/value/json_number.h"

namespace runner {
namespace {

void write_text(const std::string& text, std::string& json) {
  const auto is_plain = [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; };
  if (std::ranges::all_of(text, is_plain)) json.append(1, '"').append(text).append(1, '"');
  else json += nlohmann::json(text).dump();
}

/// Straight into the text: a tree of JSON would cost four times as much.
void write_value(const Value& value, std::string& json) {
  if (!value.secret_as.empty()) return write_text(value.secret_as, json);
  if (const auto* text = value.text()) return write_text(*text, json);
  if (const auto* list = value.list()) {
    json += '[';
    for (const Value& item : *list) {
      if (&item != list->data()) json += ',';
      write_value(item, json);
    }
    json += ']';
  } else if (const auto* map = value.map()) {
    std::vector<const Entry*> entries;
    entries.reserve(map->size());
    for (const Entry& entry : *map) entries.push_back(&entry);
    std::ranges::sort(entries, {}, [](const Entry* entry) -> const std::string& { return entry->key; });
    json += '{';
    for (const Entry* entry : entries) {
      if (entry != entries.front()) json += ',';
      write_text(entry->key, json);
      json += ':';
      write_value(entry->value, json);
    }
    json += '}';
  } else if (const auto* number = std::get_if<double>(&value.data)) {
    json += number_json(*number).dump();
  } else if (const auto* integer = std::get_if<std::int64_t>(&value.data)) {
    json += std::to_string(*integer);
  } else if (const auto* flag = std::get_if<bool>(&value.data)) {
    json += *flag ? "true" : "false";
  } else {
    json += "null";
  }
}

}  // namespace

std::string sorted_json(const Value& value) {
  std::string json;
  write_value(value, json);
  return json;
}

}  // namespace runner
