#pragma once

#include <string>
#include <string_view>

namespace runner {

/// `text` with everything a terminal could interpret made harmless: control characters (including
/// U+0080 to U+009F and those that change the text direction) become spaces, and bytes that are not
/// UTF-8 become '?'. Tabs stay. For one line: newlines become spaces.
std::string printable(std::string_view text);

/// The same for JSON text, without loss: the remaining ones are written as \uXXXX.
std::string printable_json(std::string_view json);

/// A text from a file as a message shows it: at most 80 characters, with '?' for each one that is
/// not printable ASCII.
std::string printable_ascii(std::string_view text);

/// The number of terminal columns that printable `text` takes: one per code point.
std::size_t columns(std::string_view text);

/// The first `count` columns of `text`.
std::string_view first_columns(std::string_view text, std::size_t count);

/// The leading words of a printable `line` that fit into `most` columns, and "…" if some do not.
/// Words are never cut: half a number is another number.
std::string cut_to_width(std::string_view line, std::size_t most);

}  // namespace runner
