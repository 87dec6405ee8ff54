#pragma once

#include <span>
#include <string_view>

namespace stages {

/// What the 102 classes of Oxford Flowers are called, in order of their label.
std::span<const std::string_view> flower_names();

}  // namespace stages
