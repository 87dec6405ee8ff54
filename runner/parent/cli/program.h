#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runner/shared/error/diagnostic.h"

namespace runner {

/// What the program does for the words after its name: results to descriptor 1, talk to
/// descriptor 2. Returns the exit code, and throws nothing.
int run_program(const std::vector<std::string>& words);

/// Sees to it that this process, its threads and its workers have a stack that their calls fit on:
/// raises the limit (ulimit -s) where that is too low. An error where the system does not allow it.
std::optional<Diagnostic> raise_stack_limit();

/// Paths are written into records, which are UTF-8 text. An error for each word, for the working
/// folder and the folders that variables name, where that is none, before anything is written; and
/// for each word that is empty.
Diagnostics check_texts(std::span<const std::string> words);

}  // namespace runner
