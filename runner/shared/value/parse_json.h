#pragma once

#include <cstddef>
#include <istream>
#include <string_view>

#include <nlohmann/json.hpp>

namespace runner {

/// Parses JSON from a file, which may have been edited, or from another program. The result is
/// discarded (is_discarded()) if the text is invalid or nested more deeply than anything Retort
/// writes, since copying or writing such a value could overflow the stack. Use this instead of the
/// library's own parse(), which has no depth limit.
template <typename Json = nlohmann::ordered_json>
Json parse_json(std::string_view text);
/// Parses a whole file. If it cannot be read, the result is discarded, as after a parse error.
template <typename Json = nlohmann::ordered_json>
Json parse_json(std::istream& file);

/// True if brackets in `text`, which may be JSON, nest more than `depth` levels deep.
bool nests_deeper(std::string_view text, std::size_t depth);

extern template nlohmann::json parse_json(std::string_view);
extern template nlohmann::ordered_json parse_json(std::string_view);
extern template nlohmann::json parse_json(std::istream&);
extern template nlohmann::ordered_json parse_json(std::istream&);

}  // namespace runner
