#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace runner {

/// Concatenates the parts in order, with `separator` between them.
std::string join(std::span<const std::string> parts, std::string_view separator);

/// Returns "a, b and 3 more": the first `most` names, each enclosed in `quote`, and the number of
/// names left out.
std::string listed(std::span<const std::string> names, std::size_t most,
                   std::string_view quote = "");

/// Formats a count: "1 item", "2 items".
std::string counted(std::size_t number, std::string_view noun);

/// Returns "a or b", or "a, b or 3 more" if there are more than `most` alternatives.
std::string either(std::span<const std::string> names, std::size_t most);

}  // namespace runner
