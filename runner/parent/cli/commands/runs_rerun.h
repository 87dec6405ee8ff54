#pragma once

#include <string>

#include "runner/parent/cli/rerun.h"

namespace runner {

/// `retort runs rerun RUN [overrides]`: a new run by the record of another one.
ExitCode rerun_run(const RerunFlags& flags, Console& console);

/// `retort runs reproduce RUN [overrides]`: the same without anything of earlier runs, compared with the recorded one.
/// kDone: identical; 2: every metric within `tolerance`, a number as text; 3: another result; else what kept the run
/// from its end. kNoResults where the recorded one has none to compare with.
ExitCode reproduce_run(RerunFlags flags, const std::string& tolerance, Console& console);

}  // namespace runner
