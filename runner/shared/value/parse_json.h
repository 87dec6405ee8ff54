#pragma once

#include <cstddef>
#include <istream>
#include <string_view>

#include <nlohmann/json.hpp>

namespace runner {

/// JSON of a file or of another program, which somebody may have edited: discarded (is_discarded())
/// where the text is none, or is nested deeper than any that we write, which to copy or to write
/// again would take more stack than there is. The library's own parse() does not limit that, and is
/// called nowhere else.
template <typename Json = nlohmann::ordered_json>
Json parse_json(std::string_view text);
/// The same of a whole file; what cannot be read is discarded too.
template <typename Json = nlohmann::ordered_json>
Json parse_json(std::istream& file);

/// Do the brackets of a text that may be JSON nest deeper than `depth`?
bool nests_deeper(std::string_view text, std::size_t depth);

extern template nlohmann::json parse_json(std::string_view);
extern template nlohmann::ordered_json parse_json(std::string_view);
extern template nlohmann::json parse_json(std::istream&);
extern template nlohmann::ordered_json parse_json(std::istream&);

}  // namespace runner
