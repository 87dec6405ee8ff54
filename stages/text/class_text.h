#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace stages {

/// Returns the name that texts use for the class in the folder with this name: '_' and '-' become
/// spaces. Captions and text prompts for the class both use this name.
std::string words_of_folder(std::string folder);

/// Returns `text` with each {name} replaced by the class name, without unprintable characters, as
/// in captions. Throws std::invalid_argument if the text has no {name}.
std::string class_text(std::string_view text, std::string_view name);

/// Returns a class name in Unicode normalization form C, for comparison. Recipes and folder names
/// may encode accents differently, as macOS and Linux do. A name that is not UTF-8 is returned
/// unchanged.
std::string compared_name(std::string_view name);

/// Returns the index of `name` in `names`: of an identical name, or else of one with the same
/// compared_name(); nullopt if there is none.
std::optional<std::size_t> place_of_name(std::string_view name, std::span<const std::string> names);

}  // namespace stages
