#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runner/parent/schema/schema_node.h"

namespace runner {

/// What a schema asks for, in words: "an integer of at least 1", "auto", "a list", "auto, or a number above 0".
/// `unit` is that of the surrounding option; the schema's own comes first.
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
