#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace runner {

/// Parses JSON that nobody has vouched for: nested at most `depth` deep, and with no name twice in
/// one object. Throws std::invalid_argument saying of `what` what is wrong, in half a sentence:
/// "its header is not JSON".
nlohmann::json parse_strict_json(std::string_view text, std::size_t depth, const std::string& what);

}  // namespace runner
