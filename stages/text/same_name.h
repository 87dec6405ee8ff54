#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace stages {

/// A name of a class as it is compared: in Unicode's normalization form C. A recipe and the names
/// of folders may write its accents in different ways, as macOS and Linux do. What is no UTF-8 is
/// kept as it is.
std::string compared_name(std::string_view name);

/// The place of `name` among `names`, as it is written or else as it is compared; nullopt: it is
/// not there.
std::optional<std::size_t> place_of_name(std::string_view name, std::span<const std::string> names);

}  // namespace stages
