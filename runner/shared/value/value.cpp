#include "runner/shared/value/value.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <nlohmann/json.hpp>

#include "runner/shared/value/json_fields.h"

namespace runner {
namespace {

constexpr std::size_t kMaxDescribed = 60;  // maximum bytes of a string in a message

std::string unescape(std::string_view token) {
  std::string key;
  for (std::size_t i = 0; i < token.size(); ++i) {
    if (token[i] == '~' && i + 1 < token.size()) key += token[++i] == '1' ? '/' : '~';
    else key += token[i];
  }
  return key;
}

std::string number_text(double number) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, number).ptr;
  return {buffer, end};
}

}  // namespace

const Value* Value::find(std::string_view key) const {
  const Map* entries = map();
  if (!entries) return nullptr;
  // In a large mapping, most keys have the same length and prefix, so the last characters are
  // compared first.
  const char last = key.empty() ? '\0' : key.back();
  const auto found = std::ranges::find_if(*entries, [&](const Entry& entry) {
    return entry.key.size() == key.size() &&
           (key.empty() || (entry.key.back() == last && entry.key == key));
  });
  return found == entries->end() ? nullptr : &found->value;
}

Value* Value::find(std::string_view key) {
  return const_cast<Value*>(std::as_const(*this).find(key));
}

std::string_view type_name(const Value& value) {
  constexpr std::string_view kNames[] = {"null",   "boolean", "integer", "number",
                                         "string", "list",    "mapping"};
  return kNames[value.data.index()];
}

std::string describe(const Value& value) {
  struct Visitor {
    std::string operator()(std::nullptr_t) const { return "null"; }
    std::string operator()(bool flag) const { return flag ? "true" : "false"; }
    std::string operator()(std::int64_t number) const { return std::to_string(number); }
    std::string operator()(double number) const { return number_text(number); }
    std::string operator()(const std::string& text) const {
      if (text.size() <= kMaxDescribed) return '"' + text + '"';
      std::size_t end = kMaxDescribed;
      while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
      return '"' + text.substr(0, end) + "…\"";
    }
    std::string operator()(const Value::List& list) const {
      return "a list of " + std::to_string(list.size());
    }
    std::string operator()(const Value::Map& map) const {
      return map.empty() ? "an empty mapping" : "a mapping";
    }
  };
  return value.secret_as.empty() ? std::visit(Visitor{}, value.data) : value.secret_as;
}

std::string pointer_to(std::string_view pointer, std::string_view key) {
  std::string result;
  result.reserve(pointer.size() + 1 + key.size());
  result += pointer;
  result += '/';
  if (key.find_first_of("~/") == key.npos) {
    result += key;
    return result;
  }
  for (const char c : key) {
    if (c == '~') result += "~0";
    else if (c == '/') result += "~1";
    else result += c;
  }
  return result;
}

const Value& nearest(const Value& root, std::string_view pointer) {
  const Value* value = &root;
  while (!pointer.empty()) {
    pointer.remove_prefix(1);
    const std::string key = unescape(pointer.substr(0, pointer.find('/')));
    pointer.remove_prefix(std::min(pointer.size(), pointer.find('/')));
    const Value* next = nullptr;
    if (const auto* list = value->list()) {
      std::size_t index = list->size();
      std::from_chars(key.data(), key.data() + key.size(), index);
      if (index < list->size()) next = &(*list)[index];
    } else {
      next = value->find(key);
    }
    if (!next) break;
    value = next;
  }
  return *value;
}

const Value* at_key(const Value& root, std::string_view key) {
  const Value* here = &root;
  while (here && !key.empty()) {
    const std::size_t dot = std::min(key.find('.'), key.size());
    const std::string_view word = key.substr(0, dot);
    if (const auto* list = here->list()) {
      std::size_t index = list->size();
      const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), index);
      here = error == std::errc() && end == word.data() + word.size() && index < list->size()
                 ? &(*list)[index]
                 : nullptr;
    } else {
      here = here->find(word);
    }
    key.remove_prefix(std::min(dot + 1, key.size()));
  }
  return here;
}

bool same_data(const Value& a, const Value& b) {
  const auto number = [](const Value& v) -> const double* { return std::get_if<double>(&v.data); };
  const auto integer = [](const Value& v) -> const std::int64_t* {
    return std::get_if<std::int64_t>(&v.data);
  };
  if (number(a) && integer(b)) return *number(a) == static_cast<double>(*integer(b));
  if (integer(a) && number(b)) return same_data(b, a);
  if (a.data.index() != b.data.index()) return false;
  if (const auto* list = a.list()) return std::ranges::equal(*list, *b.list(), same_data);
  if (const auto* map = a.map()) {
    return map->size() == b.map()->size() && std::ranges::all_of(*map, [&](const Entry& entry) {
             const Value* other = b.find(entry.key);
             return other && same_data(entry.value, *other);
           });
  }
  if (const auto* flag = std::get_if<bool>(&a.data)) return *flag == std::get<bool>(b.data);
  if (integer(a)) return *integer(a) == *integer(b);
  if (number(a)) return *number(a) == *number(b);
  return !a.reveal() || *a.reveal() == *b.reveal();
}

nlohmann::ordered_json to_json(const Value& value, bool hide_secrets) {
  using Json = nlohmann::ordered_json;
  if (hide_secrets && !value.secret_as.empty()) return value.secret_as;
  if (const auto* list = value.list()) {
    Json::array_t items;
    items.reserve(list->size());
    for (const Value& item : *list) items.push_back(to_json(item, hide_secrets));
    return Json(std::move(items));
  }
  if (const auto* map = value.map()) {
    Json::object_t object;
    object.reserve(map->size());  // without this, growing would copy the contents
    for (const Entry& entry : *map)
      object.emplace_back(entry.key, to_json(entry.value, hide_secrets));
    return Json(std::move(object));
  }
  if (const auto* number = std::get_if<double>(&value.data)) return number_json(*number);
  if (const auto* flag = std::get_if<bool>(&value.data)) return *flag;
  if (const auto* integer = std::get_if<std::int64_t>(&value.data)) return *integer;
  if (const auto* text = value.reveal()) return *text;
  return nullptr;
}

Value from_json(const nlohmann::ordered_json& json) {
  Value value;
  if (json.is_boolean()) value.data = json.get<bool>();
  else if (json.is_number_unsigned() &&
           json.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max()) {
    value.data = std::to_string(json.get<std::uint64_t>());
    value.form = ScalarForm::kBigInteger;
  } else if (json.is_number_integer()) value.data = json.get<std::int64_t>();
  else if (json.is_number()) value.data = json.get<double>();
  else if (json.is_string()) value.data = json.get<std::string>();
  else if (json.is_array()) {
    Value::List list;
    list.reserve(json.size());
    for (const auto& item : json) list.push_back(from_json(item));
    value.data = std::move(list);
  } else if (json.is_object()) {
    Value::Map map;
    map.reserve(json.size());
    for (const auto& [key, item] : json.get_ref<const nlohmann::ordered_json::object_t&>())
      map.push_back({key, {}, from_json(item)});
    value.data = std::move(map);
  }
  return value;
}

const Location& place_of(const Value& value) {
  const Value* const kind = value.map() ? value.find("kind") : nullptr;
  const bool is_elsewhere =
      kind && !kind->is_default && kind->where.source && kind->where.source != value.where.source;
  return is_elsewhere ? kind->where : value.where;
}

}  // namespace runner
