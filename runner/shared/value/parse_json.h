#pragma once

#include <cstddef>
#include <istream>
#include <string_view>

#include <nlohmann/json.hpp>

namespace runner {

/// Parses JSON from a file or another program, which may have been edited. Discarded
/// (is_discarded()) if the text is invalid or nested deeper than anything we write; copying or
/// writing that could overflow the stack. The library's own parse() has no such limit, and is
/// called nowhere else.
template <typename Json = nlohmann::ordered_json>
Json parse_json(std::string_view text);
/// The same for a whole file; an unreadable file is discarded too.
template <typename Json = nlohmann::ordered_json>
Json parse_json(std::istream& file);

/// True if the brackets of a text that may be JSON nest deeper than `depth`.
bool nests_deeper(std::string_view text, std::size_t depth);

extern template nlohmann::json parse_json(std::string_view);
extern template nlohmann::ordered_json parse_json(std::string_view);
extern template nlohmann::json parse_json(std::istream&);
extern template nlohmann::ordered_json parse_json(std::istream&);

}  // namespace runner
