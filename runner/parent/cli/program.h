#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runner/shared/error/diagnostic.h"

namespace runner {

/// Runs the program for the words after its name. Results go to descriptor 1, messages to
/// descriptor 2. Returns the exit code; never throws.
int run_program(const std::vector<std::string>& words);

/// Makes the stack of this process, its threads and its workers large enough for their calls:
/// raises the limit (ulimit -s) if it is too low. An error if the system does not allow it.
std::optional<Diagnostic> raise_stack_limit();

/// Paths are written into records, which are UTF-8 text. Before anything is written, reports an
/// error for each word, for the working folder and for each folder named by a variable that is not
/// UTF-8, and for each empty word.
Diagnostics check_texts(std::span<const std::string> words);

}  // namespace runner
