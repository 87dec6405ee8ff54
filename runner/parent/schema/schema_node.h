#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runner/parent/schema/rule.h"
#include "runner/shared/value/value.h"

namespace runner {

/// A regular expression in a schema: ECMAScript syntax without back-references, over UTF-8
/// characters. Matching never backtracks, so the time is at most quadratic in kMaxText for any
/// pattern.
class Pattern {
 public:
  /// Longer strings never match, so constraining a string with a pattern also limits its length.
  static constexpr std::size_t kMaxText = 1000;  // characters

  /// Returns nullopt if `expression` is invalid.
  static std::optional<Pattern> compile(std::string_view expression);

  /// True if the pattern matches anywhere in `text`.
  bool matches(std::string_view text) const;
  const std::string& expression() const { return expression_; }

 private:
  struct Compiled;
  Pattern(std::string expression, std::shared_ptr<const Compiled> compiled);

  std::string expression_;
  std::shared_ptr<const Compiled> compiled_;
};

/// Returns the number of characters in UTF-8 text; a byte that belongs to no character counts as
/// one.
std::size_t character_count(std::string_view text);

/// The types of draft-07; a set of types is their sum. Every integer is also a number.
enum JsonType : unsigned {
  kNullType = 1,
  kBooleanType = 2,
  kIntegerType = 4,
  kNumberType = 8,
  kStringType = 16,
  kArrayType = 32,
  kObjectType = 64,
};

struct SchemaNode;

/// A schema and its name, such as that of a property.
struct NamedSchema {
  std::string name;
  const SchemaNode* schema;
};

/// A kind that a mapping may have. Its schema is read when first needed.
struct KindSchema {
  std::string name;
  std::function<const SchemaNode&()> schema;
};

/// The schema for values of keys that match a pattern (patternProperties).
struct PatternSchema {
  Pattern pattern;
  const SchemaNode* schema;
};

/// Whether an interrupted run may continue with a different value for an option.
enum class ResumeClass {
  kSafe,     ///< the result stays the same bit for bit, or the option does not affect it
  kForce,    ///< no single recipe describes the result
  kRefused,  ///< the saved state is incompatible with the new value
};

/// A schema or subschema, read and checked: one member per keyword, empty if the keyword is absent.
/// Nodes point to each other; the SchemaSet owns all of them, and they do not move.
struct SchemaNode {
  std::string_view file;  ///< "train/supervised.schema.json"; borrowed from the SchemaSet
  std::string pointer;    ///< its location in the file, "/properties/epochs"

  std::optional<bool> verdict;  ///< set for a schema that is just true or false
  std::optional<std::string> reference;
  /// The target of $ref. Among the keywords next to $ref, only description, default, unit, resume,
  /// effective and file_rule count.
  const SchemaNode* target = nullptr;

  std::string description, unit;
  std::unique_ptr<const Value> default_value;
  std::vector<Value> examples;
  std::optional<ResumeClass> resume;     ///< x-resume
  std::vector<Rule> rules;               ///< x-rules
  std::optional<std::string> config;     ///< x-config
  std::vector<Effect> effective;         ///< x-effective-when; empty for always
  std::optional<FileRule> file_rule;     ///< x-file
  std::vector<std::string> other_names;  ///< x-other-names
  std::optional<Remark> remark;          ///< x-remark

  unsigned types = 0;                         ///< 0 for any type
  std::optional<std::vector<Value>> allowed;  ///< enum, or the one value of const

  std::unique_ptr<const Value> minimum, maximum, exclusive_minimum, exclusive_maximum, multiple_of;
  std::optional<std::size_t> min_length, max_length;
  std::optional<Pattern> pattern;

  std::vector<const SchemaNode*> first_items;  ///< set if the schema lists its items one by one
  const SchemaNode* items = nullptr;
  std::optional<std::size_t> min_items, max_items;
  bool unique_items = false;

  std::vector<NamedSchema> properties;  ///< in the order in which the file lists them
  std::vector<PatternSchema> pattern_properties;
  const SchemaNode* additional_properties = nullptr;
  const SchemaNode* property_names = nullptr;
  std::vector<std::string> required;
  std::optional<std::size_t> min_properties, max_properties;

  std::vector<const SchemaNode*> all_of, any_of, one_of;
  const SchemaNode* not_this = nullptr;

  std::optional<std::string> kinds_in;  ///< x-kinds: "*" or a folder
  std::vector<KindSchema> kinds;        ///< the kinds that x-kinds refers to
  std::string default_kind;
  /// The keys that a kind of stage accepts in addition to its own options.
  const SchemaNode* common = nullptr;

  const SchemaNode* property(std::string_view key) const;
  const SchemaNode* kind(std::string_view name) const;
};

/// Returns the node that $ref ultimately leads to; `node` itself if it has no $ref.
const SchemaNode& followed(const SchemaNode& node);

/// Returns the default of the node, or of the node it refers to; null if there is none.
const Value* default_of(const SchemaNode& node);

/// Returns the description of the node, or of the node it refers to.
const std::string& description_of(const SchemaNode& node);

/// Returns the x-file of the node, or of the node it refers to; null if there is none.
const FileRule* file_rule_of(const SchemaNode& node);

/// Returns the x-effective-when of the node, or of the node it refers to; empty if there is none.
const std::vector<Effect>& effects_of(const SchemaNode& node);

/// Returns the schema of the kind that `mapping` names, or of the default kind; null if there is no
/// such kind.
const SchemaNode* kind_of(const SchemaNode& node, const Value& mapping);

/// The possible values of a key, if they can be listed.
struct KeyChoices {
  struct Choice {
    Value value;
    std::string description;
  };
  std::string description;  ///< the description of the key
  std::vector<Choice>
      choices;  ///< enum values, booleans, null, kinds and examples; other values may be valid too
  bool takes_scalar = false;  ///< false if the key takes a list or a mapping
  bool is_path = false;       ///< the value is a file or a folder
};

/// Returns what `schema` declares for the key at `path` below `value`; an index in `path` selects
/// an item of a list. Empty if it declares nothing.
KeyChoices key_choices(const SchemaNode& schema, const Value& value,
                       std::span<const std::string> path);

}  // namespace runner
