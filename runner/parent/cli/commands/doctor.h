#pragma once

#include <cstdint>

#include "runner/parent/cli/command.h"
#include "runner/parent/cli/console.h"

namespace runner {

/// Runs the first `steps` steps of a recipe twice and compares every tensor.
ExitCode check_determinism_of(const NamedRecipe& recipe, std::int64_t steps, const LogFlags& log,
                              Console& console);

/// Checks the assumptions on which memory policies rely.
ExitCode check_memory(const LogFlags& log, Console& console);

/// Measures the speed of all-reduce across `ranks` processes, as used in multi-process training.
ExitCode check_ranks(std::int64_t ranks, const LogFlags& log, Console& console);

}  // namespace runner
