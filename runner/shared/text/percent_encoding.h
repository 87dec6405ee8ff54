#pragma once

#include <string>
#include <string_view>

namespace runner {

/// Percent-encodes text for a part of a URL, optionally except slashes.
std::string percent_encoded(std::string_view text, bool keeps_slash = false);

}  // namespace runner
