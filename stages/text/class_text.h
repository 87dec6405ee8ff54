#pragma once

#include <string>
#include <string_view>

namespace stages {

/// `text` with the name of a class in place of each {name}; underscores of the name, as folders have them, are read as
/// spaces. Throws std::invalid_argument where the text has no {name}.
std::string class_text(std::string_view text, std::string name);

}  // namespace stages
