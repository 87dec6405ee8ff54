#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace runner {

/// The comment that a config file begins with, by line, without '#' and the blank after it. Lines
/// meant for programs (yaml-language-server, @package) are left out, and so are blank lines at both
/// ends.
std::vector<std::string> comment_header(std::string_view text);

/// The first sentence of the header, on one line; empty when there is none.
std::string first_sentence(std::string_view text);

}  // namespace runner
