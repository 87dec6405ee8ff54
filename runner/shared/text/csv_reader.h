#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace runner {

/// Takes the first line off `text`, with the line breaks inside its quotes, and gives its fields without quotes (RFC
/// 4180); nullopt at the end of the text. Lines may end in CR LF. Quotes that are never closed end with the text.
std::optional<std::vector<std::string>> take_csv_line(std::string_view& text);

}  // namespace runner
