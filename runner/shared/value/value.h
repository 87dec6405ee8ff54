#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/shared/error/diagnostic.h"

namespace runner {

struct Entry;

/// How a scalar was written, if that matters for writing it again.
enum class ScalarForm {
  kPlain,
  kSingleQuoted,  ///< on a command line
  kDoubleQuoted,  ///< on a command line
  kBigInteger,    ///< data holds the digits of an integer that needs more than 64 bits
  kEnvironment,   ///< the text of an environment variable, treated as a number if the schema wants
                  ///< one
};

/// A node of a recipe that remembers where it was written. Overrides and composition move Values
/// around together with their Location, so an error points at the text the user typed, in a file or
/// on a command line.
struct Value {
  using List = std::vector<Value>;
  using Map = std::vector<Entry>;  ///< in the order written; keys are unique

  std::variant<std::nullptr_t, bool, std::int64_t, double, std::string, List, Map> data;
  Location where;
  /// What records and output show instead of `data`; empty: not a secret
  /// (runner/parent/config/secret.h).
  std::string secret_as = {};
  ScalarForm form = ScalarForm::kPlain;
  bool is_default = false;  ///< not written by the user: filled in from a schema

  bool is_null() const { return std::holds_alternative<std::nullptr_t>(data); }
  const List* list() const { return std::get_if<List>(&data); }
  List* list() { return std::get_if<List>(&data); }
  const Map* map() const { return std::get_if<Map>(&data); }
  Map* map() { return std::get_if<Map>(&data); }
  /// The text; null if it is none. That of a secret is what may be shown instead of it.
  const std::string* text() const {
    const std::string* const text = reveal();
    return text && !secret_as.empty() ? &secret_as : text;
  }
  /// True if it is the text `word`, which needs no look at what it is otherwise.
  bool says(std::string_view word) const { return reveal() && *reveal() == word; }
  /// The text itself, also of a secret: for what acts on it and neither shows nor keeps it, which
  /// tests/layers_test.sh lists.
  const std::string* reveal() const { return std::get_if<std::string>(&data); }

  /// The value of `key`; null if this is not a mapping or has no such key.
  const Value* find(std::string_view key) const;
  Value* find(std::string_view key);
};

/// What a key was before it became text. Keys are compared and looked up as text: 1 and "1" are the
/// same key.
enum class KeyType { kString, kInteger, kFloat, kBool, kNull };

/// One `key: value` of a mapping.
struct Entry {
  std::string key;
  Location key_where;
  Value value;
  KeyType key_type = KeyType::kString;
};

/// "null", "boolean", "integer", "number", "string", "list" or "mapping".
std::string_view type_name(const Value& value);

/// `value` on one line for a message: strings in double quotes, long ones truncated, containers by
/// name and size.
std::string describe(const Value& value);

/// `pointer` followed by `key`, escaped as in RFC 6901.
std::string pointer_to(std::string_view pointer, std::string_view key);

/// The value at `pointer`, or its nearest existing ancestor (the place to show for a missing key).
const Value& nearest(const Value& root, std::string_view pointer);

/// The value at the dotted `key` in `root` ("train.layers.0"), root itself for ""; null if there is
/// none.
const Value* at_key(const Value& root, std::string_view key);

/// True if the data are equal, regardless of location. 1 and 1.0 are equal, as in JSON Schema.
bool same_data(const Value& a, const Value& b);

/// Pass `hide_secrets` for records, but not for the worker. NaN and infinities become strings.
nlohmann::ordered_json to_json(const Value& value, bool hide_secrets = true);
Value from_json(const nlohmann::ordered_json& json);

/// The place to show for an error in a value as a whole. For a mapping whose kind was written
/// elsewhere than its first keys, as by an override, that is the kind, which decides what keys are
/// allowed.
const Location& place_of(const Value& value);

}  // namespace runner
