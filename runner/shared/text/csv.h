#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace runner {

/// Returns `text` as one CSV field. Quotes it and doubles its quotes if it contains a comma, a
/// quote or a line break (RFC 4180).
std::string csv_field(std::string_view text);

/// Joins the fields (at least one) into a line ending with a line feed.
std::string csv_line(const std::vector<std::string>& fields);

/// Returns the shortest text that parses back to `value`.
std::string csv_number(double value);

/// Removes the first line from `text`, including line breaks inside quotes, and returns its
/// unquoted fields (RFC 4180); nullopt at the end of the text. Lines may end in CR LF. An unclosed
/// quote extends to the end of the text.
std::optional<std::vector<std::string>> take_csv_line(std::string_view& text);

}  // namespace runner
