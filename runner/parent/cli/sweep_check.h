#pragma once

#include <cstdint>
#include <optional>

#include "runner/parent/cli/command.h"
#include "runner/parent/sweep/sweep_journal.h"
#include "runner/parent/sweep/sweep_layout.h"
#include "runner/shared/value/value.h"

namespace runner {

/// The recipe that a trial was begun with; nullopt where its file is gone or is no YAML.
std::optional<Value> trial_recipe(const SweepLayout& layout, std::uint64_t trial, Sources& sources);

/// What differs between a sweep as it was begun and as it is resumed now, in the folder where its relative paths stand.
///
/// Errors: a recipe of a trial that is still to run was changed (kDamagedRecord); the invocation `named`, where it
/// names a recipe, makes other trials than the journal has (kChangedRun, with the first settings that differ); input
/// files are not what they were when a trial began (kChangedRun, a warning with `force`). Warnings: another build or
/// processor than that of a trial that has begun, and more threads in `slots` trials at a time than the processor has.
Diagnostics check_resumed_sweep(const SweepJournal& journal, const NamedRecipe& named, std::int64_t slots, bool force,
                                Sources& sources);

}  // namespace runner
