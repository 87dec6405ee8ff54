#pragma once

#include <string>
#include <vector>

namespace runner {

/// What the program does for the words after its name: results to descriptor 1, talk to
/// descriptor 2. Returns the exit code, and throws nothing.
int run_program(const std::vector<std::string>& words);

}  // namespace runner
