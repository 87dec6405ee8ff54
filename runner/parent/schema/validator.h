#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/parent/schema/schema_node.h"
#include "runner/shared/error/diagnostic.h"

namespace runner {

/// Returns all errors in `value` according to `schema`, in source order. Does not fill in defaults.
/// Inside a stage with `foreach`, a string with ${item.…} is valid anywhere, since it is checked
/// again once filled in. `items` is true if `value` itself is inside such a stage.
Diagnostics check(const Value& value, const SchemaNode& schema, bool items = false);

/// True if `value` is a string to be filled in by foreach.
bool names_item(const Value& value);

/// True if `mapping` is a stage with `foreach`.
bool has_items(const SchemaNode& schema, const Value& mapping);

/// True if `value` is a string that YAML reads without quotes anywhere, and not a secret.
bool is_plain_word(const Value& value);

/// True if every item of the list that `schema` describes is a list.
bool is_list_of_lists(const SchemaNode& schema);

/// The location that is being validated. Locations form a chain on the stack up to the root. The
/// chain is turned into a JSON pointer only when an error is reported.
struct ValidatorPlace {
  const ValidatorPlace* above = nullptr;
  std::string_view key = {};              ///< set for an entry of a mapping
  std::optional<std::size_t> index = {};  ///< set for an item of a list
  const Location* key_where = nullptr;
  bool items = false;  ///< true inside a stage with foreach
  int depth = 0;

  std::string pointer() const;
  ValidatorPlace below(const Entry& entry) const;
  ValidatorPlace below(std::size_t at) const;
};

/// A pass over a value and its schema that adds errors to `errors`. Used by check().
class ValidatorPass {
 public:
  explicit ValidatorPass(Diagnostics& errors) : errors_(errors) {}

  /// `unit` is the unit of the option to which the schema belongs.
  void check(const Value& value, const SchemaNode& schema, const ValidatorPlace& place,
             std::string_view unit = "");

 private:
  // validator_scalars.cpp
  bool check_allowed(const Value& value, const SchemaNode& schema, const ValidatorPlace& place);
  bool check_type(const Value& value, const SchemaNode& schema, const ValidatorPlace& place);
  void check_number(const Value& value, const SchemaNode& schema, const ValidatorPlace& place,
                    std::string_view unit);
  void check_text(const Value& value, const SchemaNode& schema, const ValidatorPlace& place);

  // validator_containers.cpp
  void check_list(const Value& value, const SchemaNode& schema, const ValidatorPlace& place,
                  std::string_view unit);
  void check_mapping(const Value& value, const SchemaNode& schema, const ValidatorPlace& place);
  void check_key(const Entry& entry, const SchemaNode& schema, const ValidatorPlace& place);
  std::vector<std::string> other_kinds_with(const SchemaNode& schema, std::string_view key) const;
  void unknown_key(const Entry& entry, const SchemaNode& schema, const ValidatorPlace& place);

  // validator.cpp
  bool check_top_level(const Entry& entry, const SchemaNode& recipe, const ValidatorPlace& place);
  void check_kind(const Value& value, const SchemaNode& schema, const ValidatorPlace& place);

  void check_combinations(const Value& value, const SchemaNode& schema, const ValidatorPlace& place,
                          std::string_view unit);
  void no_alternative(const Value& value, const std::vector<const SchemaNode*>& alternatives,
                      const ValidatorPlace& place, std::string_view unit);
  Diagnostics verdict(const Value& value, const SchemaNode& schema, const ValidatorPlace& place,
                      std::string_view unit);

  void fail(ErrorCode code, const Location& where, std::string pointer, std::string message,
            std::string help = "");

  Diagnostics& errors_;
  /// The schema with all kinds, while a mapping is checked against the schema of its kind.
  const SchemaNode* chosen_ = nullptr;
};

/// Returns the JsonTypes of `value`: an integer is also a number, and 1.0 is also an integer.
unsigned types_of(const Value& value);

/// Returns the strings among the allowed values, for "did you mean".
std::vector<std::string> allowed_texts(const SchemaNode& schema);

/// Returns the keys that `schema` declares by name.
std::vector<std::string> known_keys(const SchemaNode& schema);

}  // namespace runner
