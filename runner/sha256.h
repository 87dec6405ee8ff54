#pragma once

#include <string>
#include <string_view>

namespace runner {

/// The SHA-256 digest of some bytes, as 64 hexadecimal digits.
std::string sha256(std::string_view bytes);

}  // namespace runner
