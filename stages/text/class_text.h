#pragma once

#include <string>
#include <string_view>

namespace stages {

/// What texts call a class that has a folder of this name: the name with spaces for '_' and '-'.
/// Whoever writes captions of such a class and whoever asks for it by a text call it so.
std::string words_of_folder(std::string folder);

/// `text` with what a class is called in place of each {name}, and nothing in it that cannot be
/// printed, as in a caption. Throws std::invalid_argument where the text has no {name}.
std::string class_text(std::string_view text, std::string_view name);

}  // namespace stages
