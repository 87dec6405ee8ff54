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

/// How a scalar was written, where that matters for writing it back.
enum class ScalarForm {
  kPlain,
  kSingleQuoted,  ///< single quotes on a command line
  kDoubleQuoted,  ///< double quotes on a command line
  kBigInteger,    ///< `data` contains the digits of an integer that needs more than 64 bits
  kEnvironment,   ///< the string in an environment variable; a number if the schema expects one
};

/// A node of a recipe, which remembers where it was written. Overrides and composition move Values
/// around together with their Location, so an error points at the text that the user typed in a
/// file or on the command line.
struct Value {
  using List = std::vector<Value>;
  using Map = std::vector<Entry>;  ///< in the order in which they were written; keys are unique

  std::variant<std::nullptr_t, bool, std::int64_t, double, std::string, List, Map> data;
  Location where = {};
  /// The text shown in records and output instead of `data`; empty if the value is not a secret
  /// (runner/parent/config/secret.h).
  std::string secret_as = {};
  ScalarForm form = ScalarForm::kPlain;
  bool is_default = false;  ///< not set by the user: filled in from a schema

  bool is_null() const { return std::holds_alternative<std::nullptr_t>(data); }
  const List* list() const { return std::get_if<List>(&data); }
  List* list() { return std::get_if<List>(&data); }
  const Map* map() const { return std::get_if<Map>(&data); }
  Map* map() { return std::get_if<Map>(&data); }
  /// Returns the string, or null if the value is not a string. For a secret, returns `secret_as`
  /// instead.
  const std::string* text() const {
    const std::string* const text = reveal();
    return text && !secret_as.empty() ? &secret_as : text;
  }
  /// True if the string is `word`. Compares the actual text of a secret, without revealing it.
  bool says(std::string_view word) const { return reveal() && *reveal() == word; }
  /// Returns the actual string, even of a secret; null if the value is not a string. Only for code
  /// that uses the text without showing or storing it; tests/layers_test.sh lists the callers.
  const std::string* reveal() const { return std::get_if<std::string>(&data); }

  /// Returns the value of `key`; null if this is not a mapping or has no such key.
  const Value* find(std::string_view key) const;
  Value* find(std::string_view key);
};

/// The type of a key before it was converted to text. Keys are compared and looked up as text, so 1
/// and "1" are the same key.
enum class KeyType { kString, kInteger, kFloat, kBool, kNull };

/// One `key: value` pair of a mapping.
struct Entry {
  std::string key;
  Location key_where;
  Value value;
  KeyType key_type = KeyType::kString;
};

/// Returns "null", "boolean", "integer", "number", "string", "list" or "mapping".
std::string_view type_name(const Value& value);

/// Describes `value` on one line for a message: strings in double quotes and truncated if long,
/// containers by type and size.
std::string describe(const Value& value);

/// Appends `key`, escaped as in RFC 6901, to `pointer`.
std::string pointer_to(std::string_view pointer, std::string_view key);

/// Returns the value at `pointer`, or its nearest existing ancestor (the location to show for a
/// missing key).
const Value& nearest(const Value& root, std::string_view pointer);

/// Returns the value at the dotted `key` in `root` ("train.layers.0"), or `root` itself for "";
/// null if there is no such value.
const Value* at_key(const Value& root, std::string_view key);

/// True if the data is equal, regardless of location. As in JSON Schema, 1 and 1.0 are equal.
bool same_data(const Value& a, const Value& b);

/// Converts to JSON; NaN and infinities become strings. `hide_secrets` replaces secrets with their
/// `secret_as`; pass false for the worker, but never for records.
nlohmann::ordered_json to_json(const Value& value, bool hide_secrets = true);
Value from_json(const nlohmann::ordered_json& json);

/// Returns the location to show for an error in the value as a whole. For a mapping with a kind
/// from a different source than the mapping itself, such as an override, this is the location of
/// the kind, which determines the allowed keys.
const Location& place_of(const Value& value);

}  // namespace runner
