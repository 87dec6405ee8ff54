#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace runner {

/// `text` as one field: in quotes, its own quotes doubled, where it holds a comma, a quote or a
/// line break (RFC 4180).
std::string csv_field(std::string_view text);

/// At least one field as a line, with a line feed at its end.
std::string csv_line(const std::vector<std::string>& fields);

/// The shortest text that reads back as the same number.
std::string csv_number(double value);

/// Takes the first line off `text`, with the line breaks inside its quotes, and gives its fields
/// without quotes (RFC 4180); nullopt at the end of the text. Lines may end in CR LF. Quotes that
/// are never closed end with the text.
std::optional<std::vector<std::string>> take_csv_line(std::string_view& text);

}  // namespace runner
