#pragma once

#include <string_view>

#include "runner/parent/config/compose.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/value/value.h"

namespace runner {

// Keys of the whole recipe that some verbs have no use for. What is typed for nothing is refused.

/// run.dir in a trial of a sweep, whose folder is below the sweep's. A file may say both run.dir, for a single run, and
/// sweep.dir.
Diagnostics run_folder_of_trial(const Value& recipe);

/// Overrides of `sweep` where there is one run.
Diagnostics sweep_keys_of_single_run(const Composition& composition);

/// Of an override of `run` where a run goes on in its own folder.
Diagnostics run_keys_of_resumed_run(const Composition& composition);

/// Does the override `key`, as typed, say how a sweep is done?
bool is_sweep_key(std::string_view key);

}  // namespace runner
