#pragma once

#include <span>
#include <string>

#include "runner/shared/error/diagnostic.h"

namespace runner {

/// Paths are written into records, which are UTF-8 text. An error for each word, for the working
/// folder and the folders that variables name, where that is none, before anything is written.
Diagnostics check_texts(std::span<const std::string> words);

}  // namespace runner
