#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace runner {

/// The comment at the start of a config file, by line, without '#' and the blank after it. Omits
/// lines meant for programs (yaml-language-server, @package) and blank lines at both ends.
std::vector<std::string> comment_header(std::string_view text);

/// The first sentence of the header, on one line; empty if there is none.
std::string first_sentence(std::string_view text);

}  // namespace runner
