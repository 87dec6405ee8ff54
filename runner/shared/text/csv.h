#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace runner {

/// `text` as one field: quoted, with its quotes doubled, if it holds a comma, a quote or a line
/// break (RFC 4180).
std::string csv_field(std::string_view text);

/// The fields (at least one) as a line that ends with a line feed.
std::string csv_line(const std::vector<std::string>& fields);

/// The shortest text that parses to the same number.
std::string csv_number(double value);

/// Removes the first line from `text`, including line breaks inside quotes, and returns its
/// unquoted fields (RFC 4180); nullopt at the end of the text. Lines may end in CR LF. An unclosed
/// quote extends to the end of the text.
std::optional<std::vector<std::string>> take_csv_line(std::string_view& text);

}  // namespace runner
