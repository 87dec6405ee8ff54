#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/parent/cli/command.h"
#include "runner/parent/cli/sweep_metric.h"
#include "runner/parent/compile/recipe.h"
#include "runner/parent/config/compose.h"
#include "runner/parent/config/override.h"
#include "runner/parent/schema/schema.h"
#include "runner/parent/sweep/sweep_journal.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/value/value.h"

namespace runner {

/// One trial of a sweep: a resolved recipe, which is never parsed from text again.
struct PreparedTrial {
  std::uint64_t number;             ///< from 0, in the order of the whole sweep
  std::vector<Override> overrides;  ///< the overrides that it sets; the trials of a sweep differ in
                                    ///< these
  Value recipe;                     ///< validated, every default filled in
  std::string hash;  ///< SHA-256 of `recipe` as JSON with its keys sorted, in hexadecimal
};

/// Every trial of a sweep, each composed, validated and compiled.
struct PreparedSweep {
  std::vector<PreparedTrial> jobs;
  std::string dir;                  ///< sweep.dir; empty: multirun/<date>/<time>
  std::optional<AshaOptions> asha;  ///< sweep.asha
  TrialNodes nodes = {};            ///< of its trials
  Value launcher = {};              ///< sweep.launcher, with every default; null: this machine
  Diagnostics warnings;
};

/// The threads of a trial whose recipe says auto, if `slots` trials run at once: an equal share of
/// the processor. The number of threads affects the result's bits, so it is set before the recipe
/// is hashed. With one slot the recipe stays as it is.
std::int64_t threads_of_slot(std::int64_t slots);

/// Prepares the trials of the recipe's `sweep.params` and of the command line, whose keys replace
/// those of the recipe. Every error in any trial is reported once, with the number of trials it
/// affects. Warns about trials that result in the same recipe.
Result<PreparedSweep> prepare_sweep(const NamedRecipe& named, const SchemaSet& schemas,
                                    Sources& sources, std::int64_t slots = 1);

// Keys of the whole recipe that some verbs do not use. Overriding one in vain is refused.

/// Errors for run.dir in a trial of a sweep, whose folder is below the sweep's. A file may set both
/// run.dir, for a single run, and sweep.dir.
Diagnostics run_folder_of_trial(const Value& recipe);

/// Errors for overrides of `sweep` in a single run.
Diagnostics sweep_keys_of_single_run(const Composition& composition);

/// Errors for overrides of `run` in a run that continues in its own folder.
Diagnostics run_keys_of_resumed_run(const Composition& composition);

/// True if the override `key`, as typed, sets how a sweep is run.
bool is_sweep_key(std::string_view key);

}  // namespace runner
