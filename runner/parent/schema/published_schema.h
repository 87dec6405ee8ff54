#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/parent/schema/schema.h"
#include "runner/parent/schema/schema_node.h"

namespace runner {

/// Returns the output of `retort schema [KIND]`: a single draft-07 document that needs no other
/// file and uses none of our keywords. For a kind of stage, it describes its options and the keys
/// common to all stages; for a kind of sub-mapping ("train/optimizer/adam"), its options; for
/// "recipe", a composed recipe with any of the kinds. Any other name is a kUnknownKind error that
/// lists the closest name, or all names.
Result<nlohmann::ordered_json> published_schema(const SchemaSet& schemas, std::string_view name);

/// Returns the output of `retort schema --editor [GROUP]`: what one file may contain, as written.
/// "recipe" describes recipes; a group ("train", "model/backbone") describes its options. Editors
/// check files before composition, so anything may be an interpolation or ???, nothing is required,
/// and a mapping with its kind set elsewhere must match one of the kinds.
Result<nlohmann::ordered_json> editor_schema(const SchemaSet& schemas, std::string_view group);

/// Returns the names that editor_schema() accepts: "recipe", the families, and the folders of kinds
/// of sub-mappings.
std::vector<std::string> editor_groups(const SchemaSet& schemas);

/// Describes what a schema expects: "an integer of at least 1", "auto", "a list", "auto, or a
/// number above 0". `unit` is the unit of the enclosing option; the schema's own unit takes
/// precedence.
std::string expected(const SchemaNode& schema, std::string_view unit = "");

/// Describes a set of types: "an integer, or null" for kIntegerType | kNullType.
std::string type_phrase(unsigned types);

/// Describes the range of a number: "from 1 to 1024 (samples)"; empty if it has no bounds.
std::string range_phrase(const SchemaNode& schema, std::string_view unit);

/// Describes a value that was found: "the string "ten"", or else the result of describe().
std::string found_phrase(const Value& value);

/// Formats a value for a list of allowed values, with strings unquoted.
std::string bare(const Value& value);

/// Puts a key or word in single quotes, truncating it if it is long.
std::string in_quotes(std::string_view word);

/// Joins words as "a, b, c", with "…" after the first `limit`.
std::string joined(std::span<const std::string> words, std::size_t limit = 10);

}  // namespace runner
