#pragma once

#include <string>
#include <string_view>

namespace runner {

/// `text` with everything that a terminal could obey made harmless: control characters (also those
/// of U+0080 to U+009F, and those that turn the direction of what follows) become spaces, and bytes
/// that are not UTF-8 become '?'. A tab stays. For one line: newlines become spaces.
std::string printable(std::string_view text);

/// The same of a text of JSON, which loses nothing: what it has left of them is written as \uXXXX.
std::string printable_json(std::string_view json);

/// A text from a file as a message shows it: 80 characters at most, and a '?' for each that is not
/// printable ASCII.
std::string printable_ascii(std::string_view text);

/// How many columns printable `text` takes on a terminal: one per code point.
std::size_t columns(std::string_view text);

/// The first `count` columns of `text`.
std::string_view first_columns(std::string_view text, std::size_t count);

/// The words of a printable `line` that fit into so many columns, and "…" where some do not: half a
/// number is another one.
std::string cut_to_width(std::string_view line, std::size_t most);

}  // namespace runner
