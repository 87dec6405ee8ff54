#pragma once

#include <string>
#include <string_view>

namespace stages {

/// A text from a file as it may stand in a message: 80 characters at most, and a '?' for each that is not printable
/// ASCII.
std::string printable(std::string_view text);

}  // namespace stages
