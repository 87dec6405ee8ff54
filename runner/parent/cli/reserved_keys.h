#pragma once

#include <string_view>

#include "runner/parent/config/compose.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/value/value.h"

namespace runner {

// Some verbs ignore certain top-level keys of a recipe; overriding such a key is an error.

/// Returns an error if a trial sets run.dir, since its folder is below the sweep's folder. A file
/// may set both run.dir, for a single run, and sweep.dir.
Diagnostics run_folder_of_trial(const Value& recipe);

/// Returns errors for overrides of `sweep`, which is not used by a single run.
Diagnostics sweep_keys_of_single_run(const Composition& composition);

/// Returns errors for overrides of `run` in a run that is resumed in its own folder.
Diagnostics run_keys_of_resumed_run(const Composition& composition);

/// True if an override of `key`, as typed, controls how a sweep is run.
bool is_sweep_key(std::string_view key);

}  // namespace runner
