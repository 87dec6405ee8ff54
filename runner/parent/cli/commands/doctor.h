#pragma once

#include <cstdint>

#include "runner/parent/cli/command.h"
#include "runner/parent/cli/console.h"

namespace runner {

/// Makes the first steps of a recipe twice and compares every tensor.
ExitCode check_determinism_of(const NamedRecipe& named, std::int64_t steps, const LogFlags& log,
                              Console& console);

/// Tries out what memory policies stand on.
ExitCode check_memory(const LogFlags& log, Console& console);

}  // namespace runner
