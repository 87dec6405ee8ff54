#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace runner {

/// Returns the lines of the comment at the start of a config file, without the '#' and the space
/// after it. Omits lines meant for programs (yaml-language-server, @package) and blank lines at
/// both ends.
std::vector<std::string> comment_header(std::string_view text);

/// Returns the first sentence of the comment header, on one line; empty if there is no header.
std::string first_sentence(std::string_view text);

}  // namespace runner
