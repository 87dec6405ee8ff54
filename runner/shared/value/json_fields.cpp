#include "runner/shared/value/json_fields.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace runner {

template <typename Json>
JsonFields<Json>::JsonFields(const Json& json, std::string what)
    : json_(json), what_(std::move(what)) {
  if (!json.is_object()) throw std::runtime_error(what_ + " is not a JSON object");
}

template <typename Json>
void JsonFields<Json>::only(const std::vector<std::string_view>& keys) const {
  for (const auto& [key, value] : json_.items()) {
    if (std::ranges::find(keys, std::string_view(key)) == keys.end())
      throw std::runtime_error(what_ + " has an unknown '" + key + "'");
  }
}

template <typename Json>
void JsonFields<Json>::fail(std::string_view key, const std::string& type) const {
  throw std::runtime_error(what_ + " has a '" + std::string(key) + "' that is not " + type);
}

template <typename Json>
const Json& JsonFields<Json>::at(std::string_view key) const {
  const auto found = json_.find(key);
  if (found == json_.end()) throw std::runtime_error(what_ + " has no '" + std::string(key) + "'");
  return *found;
}

template <typename Json>
std::string JsonFields<Json>::text(std::string_view key) const {
  const Json& value = at(key);
  return value.is_string() ? value.template get<std::string>() : (fail(key, "a string"), "");
}

template <typename Json>
bool JsonFields<Json>::flag(std::string_view key) const {
  const Json& value = at(key);
  return value.is_boolean() ? value.template get<bool>() : (fail(key, "a boolean"), false);
}

template <typename Json>
std::int64_t JsonFields<Json>::integer(std::string_view key) const {
  constexpr auto kLargest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const Json& value = at(key);
  const bool fits = value.is_number_integer() && (!value.is_number_unsigned() ||
                                                  value.template get<std::uint64_t>() <= kLargest);
  return fits ? value.template get<std::int64_t>() : (fail(key, "an integer"), 0);
}

template <typename Json>
std::int64_t JsonFields<Json>::count(std::string_view key) const {
  const Json& value = at(key);
  const bool fits = value.is_number_integer() &&
                    value.template get<std::uint64_t>() >> 63 == 0;  // not negative either
  return fits ? value.template get<std::int64_t>() : (fail(key, "a count"), 0);
}

template <typename Json>
std::uint64_t JsonFields<Json>::seed(std::string_view key) const {
  const Json& value = at(key);
  return value.is_number_unsigned() ? value.template get<std::uint64_t>()
                                    : (fail(key, "a seed"), 0);
}

template <typename Json>
double JsonFields<Json>::number(std::string_view key) const {
  const Json& value = at(key);
  if (value.is_number()) return value.template get<double>();
  const auto other =
      value.is_string() ? non_finite(value.template get_ref<const std::string&>()) : std::nullopt;
  return other ? *other : (fail(key, "a number"), 0);
}

template <typename Json>
const Json& JsonFields<Json>::list(std::string_view key) const {
  const Json& value = at(key);
  if (!value.is_array()) fail(key, "a list");
  return value;
}

template <typename Json>
std::vector<std::string> JsonFields<Json>::texts(std::string_view key) const {
  const Json& items = list(key);
  const bool fits = std::ranges::all_of(items, [](const Json& item) { return item.is_string(); });
  return fits ? items.template get<std::vector<std::string>>()
              : (fail(key, "a list of strings"), std::vector<std::string>());
}

template <typename Json>
std::vector<std::int64_t> JsonFields<Json>::integers(std::string_view key) const {
  const Json& items = list(key);
  const bool fits =
      std::ranges::all_of(items, [](const Json& item) { return item.is_number_integer(); });
  return fits ? items.template get<std::vector<std::int64_t>>()
              : (fail(key, "a list of integers"), std::vector<std::int64_t>());
}

template <typename Json>
const Json& JsonFields<Json>::object(std::string_view key) const {
  const Json& value = at(key);
  if (!value.is_object()) fail(key, "an object");
  return value;
}

template class JsonFields<nlohmann::json>;
template class JsonFields<nlohmann::ordered_json>;

nlohmann::ordered_json number_json(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

std::optional<double> number_from_json(const nlohmann::ordered_json& json) {
  if (json.is_number()) return json.get<double>();
  return json.is_string() ? non_finite(json.get_ref<const std::string&>()) : std::nullopt;
}

std::optional<double> non_finite(std::string_view text) {
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

namespace {

void write_text(const std::string& text, std::string& json) {
  const auto is_plain = [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; };
  if (std::ranges::all_of(text, is_plain)) json.append(1, '"').append(text).append(1, '"');
  else json += nlohmann::json(text).dump();
}

/// Writes directly to the text, because a JSON tree would need four times as much memory.
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
    std::ranges::sort(entries, {},
                      [](const Entry* entry) -> const std::string& { return entry->key; });
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
