#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace stages {

/// The class name in texts for a folder of this name: spaces replace '_' and '-'. Captions of such
/// a class and texts that ask for it both use this name.
std::string words_of_folder(std::string folder);

/// `text` with each {name} replaced by the class name, without unprintable characters, as in a
/// caption. Throws std::invalid_argument if the text has no {name}.
std::string class_text(std::string_view text, std::string_view name);

/// A class name normalised for comparison: in Unicode's normalization form C. A recipe and folder
/// names may write accents in different ways, as macOS and Linux do. A name that is not UTF-8 is
/// unchanged.
std::string compared_name(std::string_view name);

/// The index of `name` in `names`, compared as written or else after compared_name(); nullopt: not
/// found.
std::optional<std::size_t> place_of_name(std::string_view name, std::span<const std::string> names);

}  // namespace stages
