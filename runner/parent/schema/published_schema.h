#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/parent/schema/schema.h"
#include "runner/parent/schema/schema_node.h"

namespace runner {

/// What `retort schema [KIND]` prints: one draft-07 document that needs no other file and no
/// keyword of ours. For a kind of stage its options and the keys common to all stages; for a kind
/// of a sub-mapping ("train/optimizer/adam") its options; for "recipe" what a recipe is once it is
/// composed, with every kind in it. A name that is none of these is a kUnknownKind with the
/// nearest, or all there are.
Result<nlohmann::ordered_json> published_schema(const SchemaSet& schemas, std::string_view name);

/// What `retort schema --editor [GROUP]` prints: what one file may say, as it is written. For
/// "recipe", recipes; for a group ("train", "model/backbone"), its options. A file is checked
/// before it is composed, so anything may be an interpolation or ???, nothing is required, and a
/// mapping whose kind stands elsewhere must fit one of the kinds.
Result<nlohmann::ordered_json> editor_schema(const SchemaSet& schemas, std::string_view group);

/// The names that editor_schema() takes: "recipe", the families, the folders of kinds of
/// sub-mappings.
std::vector<std::string> editor_groups(const SchemaSet& schemas);

/// What a schema asks for, in words: "an integer of at least 1", "auto", "a list", "auto, or a
/// number above 0". `unit` is that of the surrounding option; the schema's own comes first.
std::string expected(const SchemaNode& schema, std::string_view unit = "");

/// "an integer, or null" for types 4 + 1.
std::string type_phrase(unsigned types);

/// "from 1 to 1024 (samples)"; empty when the number is not bounded.
std::string range_phrase(const SchemaNode& schema, std::string_view unit);

/// A value as found: "the string "ten"", else as describe() says it.
std::string found_phrase(const Value& value);

/// A value as an item of a list of allowed ones: strings bare.
std::string bare(const Value& value);

/// A key or word in single quotes, cut when it is long.
std::string in_quotes(std::string_view word);

/// "a, b, c", at most `limit` of them, then "…".
std::string joined(std::span<const std::string> words, std::size_t limit = 10);

/// "1 item", "2 items".
std::string counted(std::size_t number, std::string_view noun);

}  // namespace runner
