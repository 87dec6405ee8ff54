#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runner/shared/error/diagnostic.h"

namespace runner {

/// Runs the program with `words`, the words after its name. Prints results to descriptor 1 and
/// messages to descriptor 2. Returns the exit code; never throws.
int run_program(const std::vector<std::string>& words);

/// Raises the stack limit (ulimit -s) of this process, its threads and its workers if it is too
/// low. Returns an error if the system does not allow this.
std::optional<Diagnostic> raise_stack_limit();

/// Returns an error for each empty word, and for each word that is not UTF-8. The working folder
/// and folders named by environment variables must be UTF-8 too, since records are UTF-8 text that
/// contains paths. Called before anything is written.
Diagnostics check_texts(std::span<const std::string> words);

}  // namespace runner
