#pragma once

#include <string>
#include <string_view>

namespace runner {

/// Returns `text` on one line, without anything that a terminal could interpret: control characters
/// (including newlines, U+0080 to U+009F and characters that change the text direction) become
/// spaces, and bytes that are not UTF-8 become '?'. Tabs are kept.
std::string printable(std::string_view text);

/// Makes JSON text safe for a terminal without loss: characters that a terminal could interpret are
/// written as \uXXXX.
std::string printable_json(std::string_view json);

/// Returns text from a file for use in a message: at most 80 characters, with '?' instead of each
/// byte that is not printable ASCII.
std::string printable_ascii(std::string_view text);

/// Returns the number of terminal columns of printable `text`: one per code point.
std::size_t columns(std::string_view text);

/// Returns the first `count` columns of `text`.
std::string_view first_columns(std::string_view text, std::size_t count);

/// Returns the leading words of a printable `line` that fit in `most` columns, followed by "…" if
/// anything was cut. Cuts between words if possible: half a number would be a different number.
std::string cut_to_width(std::string_view line, std::size_t most);

/// Returns printable `text` with its middle replaced by "…" so that at most `most` columns remain.
/// A number is kept or left out as a whole.
std::string without_middle(std::string_view text, std::size_t most);

}  // namespace runner
