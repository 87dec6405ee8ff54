#include <algorithm>
#include <string>
#include <unordered_map>

#include "runner/parent/keys/tracking_service.h"
#include "runner/parent/schema/published_schema.h"
#include "runner/parent/schema/validator.h"
#include "runner/shared/text/join.h"
#include "runner/shared/text/suggest.h"
#include "runner/shared/value/value.h"

namespace runner {
namespace {

/// Returns `text` prefixed with its length, so that concatenated strings are unambiguous.
std::string with_length(const std::string& text) {
  return std::to_string(text.size()) + '"' + text;
}

/// Returns a string that is the same for equal data, such as 1 and 1.0, or mappings with keys in a
/// different order.
std::string fingerprint(const Value& value) {
  if (const auto* number = std::get_if<double>(&value.data)) {
    const bool integral = *number >= -0x1p63 && *number < 0x1p63 &&
                          *number == static_cast<double>(static_cast<std::int64_t>(*number));
    return integral ? std::to_string(static_cast<std::int64_t>(*number))
                    : describe({value.data, {}});
  }
  std::string text;
  if (const auto* list = value.list()) {
    for (const Value& item : *list) text += fingerprint(item) + ",";
    return "[" + text + "]";
  }
  if (const auto* map = value.map()) {
    std::vector<std::string> entries;
    for (const Entry& entry : *map)
      entries.push_back(with_length(entry.key) + ":" + fingerprint(entry.value));
    std::ranges::sort(entries);
    for (const std::string& entry : entries) text += entry + ",";
    return "{" + text + "}";
  }
  if (value.reveal()) return with_length(*value.reveal());
  return describe({value.data, {}});
}

std::string size_found(std::size_t size, std::string_view empty) {
  return size == 0 ? std::string(empty) : std::to_string(size);
}

/// Returns "write double brackets: [[echo, hi]]" for the list [echo, hi].
std::string in_double_brackets(const Value::List& list) {
  const bool is_plain = std::ranges::all_of(list, is_plain_word);
  std::string words;
  for (const Value& word : list)
    if (is_plain) words += (words.empty() ? "" : ", ") + *word.text();
  return "write double brackets: [[" + (words.empty() ? "…" : words) + "]]";
}

}  // namespace

std::vector<std::string> known_keys(const SchemaNode& schema) {
  std::vector<std::string> keys;
  for (const NamedSchema& property : schema.properties) keys.push_back(property.name);
  if (!schema.common) return keys;
  for (const NamedSchema& property : schema.common->properties) {
    if (!std::ranges::count(keys, property.name)) keys.push_back(property.name);
  }
  return keys;
}

void ValidatorPass::check_list(const Value& value, const SchemaNode& schema,
                               const ValidatorPlace& place, std::string_view unit) {
  const Value::List& list = *value.list();
  const std::string got = ", got " + size_found(list.size(), "an empty list");
  if (schema.min_items && list.size() < *schema.min_items) {
    const bool exactly = schema.max_items == schema.min_items;
    fail(ErrorCode::kBadLength, value.where, place.pointer(),
         (exactly ? "expected " : "expected at least ") + counted(*schema.min_items, "item") + got);
  } else if (schema.max_items && list.size() > *schema.max_items) {
    const bool exactly = schema.max_items == schema.min_items;
    fail(ErrorCode::kBadLength, value.where, place.pointer(),
         (exactly ? "expected " : "expected at most ") + counted(*schema.max_items, "item") + got);
  }
  const auto could_be_list = [&](const Value& item) {
    return item.list() || (place.items && names_item(item));
  };
  if (is_list_of_lists(schema) && !list.empty() && std::ranges::none_of(list, could_be_list)) {
    return fail(ErrorCode::kWrongType, value.where, place.pointer(),
                "expected a list of lists, got a single list", in_double_brackets(list));
  }
  for (std::size_t i = 0; i < list.size(); ++i) {
    const SchemaNode* item = i < schema.first_items.size() ? schema.first_items[i] : schema.items;
    if (item) check(list[i], *item, place.below(i), unit);
  }
  if (!schema.unique_items) return;
  std::unordered_map<std::string, const Value*> seen;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto [first, is_new] = seen.emplace(fingerprint(list[i]), &list[i]);
    if (is_new) continue;
    fail(ErrorCode::kDuplicateItem, list[i].where, place.below(i).pointer(),
         "the list contains the same item twice: " + describe(list[i]));
    errors_.back().notes.push_back({first->second->where, "it first appears here"});
  }
}

void ValidatorPass::check_mapping(const Value& value, const SchemaNode& schema,
                                  const ValidatorPlace& place) {
  const Value::Map& map = *value.map();
  if (schema.common) check(value, *schema.common, place);
  for (const std::string& key : schema.required) {
    if (value.find(key)) continue;
    const SchemaNode* property = schema.property(key);
    fail(ErrorCode::kMissingKey, place_of(value), pointer_to(place.pointer(), key),
         "missing key " + in_quotes(key), property ? description_of(*property) : "");
  }
  const std::string got = ", got " + size_found(map.size(), "an empty mapping");
  if (schema.min_properties && map.size() < *schema.min_properties) {
    fail(ErrorCode::kBadLength, value.where, place.pointer(),
         "expected at least " + counted(*schema.min_properties, "key") + got);
  }
  if (schema.max_properties && map.size() > *schema.max_properties) {
    fail(ErrorCode::kBadLength, value.where, place.pointer(),
         "expected at most " + counted(*schema.max_properties, "key") + got);
  }
  const std::size_t told = errors_.size();
  for (const Entry& entry : map) check_key(entry, schema, place);
  const Value* const kind = value.find("kind");
  const auto is_overridden = [](const Location& where) {
    return where.source && where.source->name.starts_with("override ");
  };
  if (!kind || !is_overridden(kind->where)) return;
  const auto first =
      std::find_if(errors_.begin() + static_cast<std::ptrdiff_t>(told), errors_.end(),
                   [&](const Diagnostic& error) {
                     return error.code == ErrorCode::kUnknownKey && !is_overridden(error.where);
                   });
  if (first != errors_.end()) first->notes.push_back({kind->where, "the kind is chosen here"});
}

void ValidatorPass::check_key(const Entry& entry, const SchemaNode& schema,
                              const ValidatorPlace& place) {
  const ValidatorPlace below = place.below(entry);
  if (schema.property_names) {
    const Value key{entry.key, entry.key_where};
    for (const Diagnostic& error : verdict(key, *schema.property_names, below, "")) {
      fail(ErrorCode::kBadName, entry.key_where, below.pointer(), "the key " + error.message,
           error.help);
    }
  }
  bool is_known = schema.common && schema.common->property(entry.key);
  if (const SchemaNode* property = schema.property(entry.key)) {
    is_known = true;
    check(entry.value, *property, below);
  }
  for (const PatternSchema& property : schema.pattern_properties) {
    if (!property.pattern.matches(entry.key)) continue;
    is_known = true;
    check(entry.value, *property.schema, below);
  }
  if (is_known || !schema.additional_properties) return;
  const SchemaNode& additional = followed(*schema.additional_properties);
  if (additional.verdict == false) return unknown_key(entry, schema, place);
  if (additional.kinds_in == "*" && !check_top_level(entry, schema, place)) return;
  check(entry.value, *schema.additional_properties, below);
}

/// Returns the other kinds that have the key, if the mapping has a kind. For stages, only kinds of
/// the same family.
std::vector<std::string> ValidatorPass::other_kinds_with(const SchemaNode& schema,
                                                         std::string_view key) const {
  std::vector<std::string> names;
  if (!chosen_ || !schema.pointer.empty()) return names;
  const std::string_view family = schema.file.substr(0, schema.file.find('/'));
  for (const KindSchema& kind : chosen_->kinds) {
    if (*chosen_->kinds_in == "*" && !kind.name.starts_with(family)) continue;
    if (kind.schema().property(key)) names.push_back(kind.name);
  }
  return names;
}

void ValidatorPass::unknown_key(const Entry& entry, const SchemaNode& schema,
                                const ValidatorPlace& place) {
  if (const auto kinds = other_kinds_with(schema, entry.key); !kinds.empty()) {
    return fail(ErrorCode::kUnknownKey, entry.key_where, place.below(entry).pointer(),
                in_quotes(entry.key) + " has no effect here: it is an option of " + joined(kinds),
                "leave it out, or choose another kind");
  }
  const auto keys = known_keys(schema);
  std::string help = instead_of_tracking_service(entry.key);
  if (help.empty()) help = did_you_mean(entry.key, keys);
  if (help.empty() && keys.empty()) help = "it takes no keys";
  if (help.empty()) help = "known keys: " + joined(keys);
  fail(ErrorCode::kUnknownKey, entry.key_where, place.below(entry).pointer(),
       "unknown key " + in_quotes(entry.key), help);
}

}  // namespace runner
