#pragma once

#include <string>
#include <string_view>

namespace runner {

/// Returns text that Markdown shows verbatim, on one line: each character that could begin markup
/// is escaped.
std::string markdown_text(std::string_view text);

}  // namespace runner
