#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace runner {

/// Parses untrusted JSON: at most `depth` levels deep, and without duplicate names in an object.
/// Throws std::invalid_argument with `what` as the subject of the message, such as "its header is
/// not JSON".
nlohmann::json parse_strict_json(std::string_view text, std::size_t depth, const std::string& what);

}  // namespace runner
