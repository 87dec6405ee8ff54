#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace stages {

/// A class name normalised for comparison: in Unicode's normalization form C. A recipe and folder
/// names may write accents in different ways, as macOS and Linux do. A name that is not UTF-8 is
/// unchanged.
std::string compared_name(std::string_view name);

/// The index of `name` in `names`, compared as written or else after compared_name(); nullopt: not
/// found.
std::optional<std::size_t> place_of_name(std::string_view name, std::span<const std::string> names);

}  // namespace stages
