#pragma once

#include <cstdint>

#include "runner/parent/cli/command.h"
#include "runner/parent/cli/console.h"
#include "runner/parent/cli/shared_flags.h"

namespace runner {

/// `retort data check`: has a worker look at the pictures of each data stage of a recipe, prints a table and what is
/// wrong. `distance` is by how many of 256 bits pictures that look the same may differ. Data that would stop a run, and
/// copies in two parts, are errors, and the exit code is theirs.
ExitCode check_data(const NamedRecipe& recipe, std::int64_t distance, const LogFlags& log, Console& console);

}  // namespace runner
