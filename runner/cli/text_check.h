#pragma once

#include <span>
#include <string>
#include <string_view>

#include "runner/error/diagnostic.h"

namespace runner {

/// `bytes` with "\\xe9" for each that is no printable ASCII: of a name that is no text.
std::string with_escapes(std::string_view bytes);

/// Paths are written into records, which are UTF-8 text. An error for each word, for the working folder and the
/// folders that variables name, where that is none, before anything is written.
Diagnostics check_texts(std::span<const std::string> words);

}  // namespace runner
