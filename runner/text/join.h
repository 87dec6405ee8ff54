#pragma once

#include <span>
#include <string>
#include <string_view>

namespace runner {

/// The parts in their order, with `separator` between them.
std::string join(std::span<const std::string> parts, std::string_view separator);

}  // namespace runner
