#pragma once

#include <string>
#include <string_view>

namespace runner {

/// The words of a printable `line` that fit into so many columns, and "…" where some do not: half a number is another
/// one.
std::string cut_to_width(std::string_view line, std::size_t most);

}  // namespace runner
