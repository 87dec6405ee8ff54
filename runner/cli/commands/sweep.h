#pragma once

#include "runner/cli/command.h"

namespace runner {

/// Lists the runs of a sweep; starts none. An error where `dry_run` does not ask for that.
ExitCode list_sweep(const NamedRecipe& named, bool dry_run, Console& console);

}  // namespace runner
