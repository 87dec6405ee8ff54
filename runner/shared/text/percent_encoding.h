#pragma once

#include <string>
#include <string_view>

namespace runner {

/// Percent-encodes text for use in a URL; optionally leaves slashes unchanged.
std::string percent_encoded(std::string_view text, bool keeps_slash = false);

}  // namespace runner
