#pragma once

#include <span>
#include <string>
#include <string_view>

namespace runner {

/// The parts in order, with `separator` between them.
std::string join(std::span<const std::string> parts, std::string_view separator);

/// "a, b and 3 more": the first `most` names, and the number of the others. If `quote` is ', each
/// is quoted.
std::string listed(std::span<const std::string> names, std::size_t most,
                   std::string_view quote = "");

/// "a or b", "a, b or 3 more": alternatives, of which the first `most` are written out.
std::string either(std::span<const std::string> names, std::size_t most);

}  // namespace runner
