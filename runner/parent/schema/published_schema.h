#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/parent/schema/schema.h"
#include "runner/parent/schema/schema_node.h"

namespace runner {

/// The output of `retort schema [KIND]`: one draft-07 document that needs no other file and none of
/// our keywords. For a kind of stage: its options and the keys common to all stages. For a kind of
/// a sub-mapping ("train/optimizer/adam"): its options. For "recipe": a composed recipe, with every
/// kind in it. Any other name is a kUnknownKind with the nearest name, or all names.
Result<nlohmann::ordered_json> published_schema(const SchemaSet& schemas, std::string_view name);

/// The output of `retort schema --editor [GROUP]`: what one file may contain, as written. For
/// "recipe", recipes; for a group ("train", "model/backbone"), its options. Editors check a file
/// before it is composed, so anything may be an interpolation or ???, nothing is required, and a
/// mapping whose kind is set elsewhere must fit one of the kinds.
Result<nlohmann::ordered_json> editor_schema(const SchemaSet& schemas, std::string_view group);

/// The names that editor_schema() accepts: "recipe", the families, the folders of kinds of
/// sub-mappings.
std::vector<std::string> editor_groups(const SchemaSet& schemas);

/// What a schema expects, in words: "an integer of at least 1", "auto", "a list", "auto, or a
/// number above 0". `unit` is that of the enclosing option; the schema's own takes precedence.
std::string expected(const SchemaNode& schema, std::string_view unit = "");

/// "an integer, or null" for types 4 + 1.
std::string type_phrase(unsigned types);

/// "from 1 to 1024 (samples)"; empty if the number is not bounded.
std::string range_phrase(const SchemaNode& schema, std::string_view unit);

/// A value as found: "the string "ten"", else the text of describe().
std::string found_phrase(const Value& value);

/// A value as an item of a list of allowed ones: strings bare.
std::string bare(const Value& value);

/// A key or word in single quotes, truncated if long.
std::string in_quotes(std::string_view word);

/// "a, b, c", at most `limit` of them, then "…".
std::string joined(std::span<const std::string> words, std::size_t limit = 10);

/// "1 item", "2 items".
std::string counted(std::size_t number, std::string_view noun);

}  // namespace runner
