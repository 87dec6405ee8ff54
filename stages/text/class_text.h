#pragma once

#include <string>
#include <string_view>

namespace stages {

/// The class name in texts for a folder of this name: spaces replace '_' and '-'. Captions of such
/// a class and texts that ask for it both use this name.
std::string words_of_folder(std::string folder);

/// `text` with each {name} replaced by the class name, without unprintable characters, as in a
/// caption. Throws std::invalid_argument if the text has no {name}.
std::string class_text(std::string_view text, std::string_view name);

}  // namespace stages
