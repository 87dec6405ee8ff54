#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace stages {

/// The positions of `names` in an order drawn from (seed, name) alone: of two names the same one comes first, whatever
/// other names are there and in whatever order.
std::vector<std::size_t> drawn_by_name(std::span<const std::string_view> names, std::uint64_t seed);

}  // namespace stages
