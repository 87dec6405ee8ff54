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
  std::vector<Override> overrides;  ///< the overrides that it sets, which differ between the
                                    ///< trials of a sweep
  Value recipe;                     ///< validated, every default filled in
  std::string hash;  ///< SHA-256 of `recipe` as JSON with its keys sorted, in hexadecimal
};

/// Every trial of a sweep, each composed, validated and compiled.
struct PreparedSweep {
  std::vector<PreparedTrial> jobs;
  std::string dir;                  ///< sweep.dir; empty: multirun/<date>/<time>
  std::optional<AshaOptions> asha;  ///< sweep.asha
  TrialNodes nodes = {};            ///< the nodes of its trials
  Value launcher = {};              ///< sweep.launcher, with every default; null: this machine
  Diagnostics warnings;
};

/// Returns the threads of a trial with `threads: auto` if `slots` trials run at once: an equal
/// share of the processor, at least 1. The number of threads affects the bits of the result, so it
/// is set before the recipe is hashed. With one slot, `auto` stays in the recipe.
std::int64_t threads_of_slot(std::int64_t slots);

/// Prepares the trials that the recipe's `sweep.params` and the command line define; a key on the
/// command line replaces the same key of the recipe. Each error is reported once, with the number
/// of trials that it affects. Warns about trials that have the same recipe.
Result<PreparedSweep> prepare_sweep(const NamedRecipe& named, const SchemaSet& schemas,
                                    Sources& sources, std::int64_t slots = 1);

// Some verbs do not use certain top-level keys of a recipe; overriding such a key is an error.

/// Returns an error if a trial sets run.dir, since its folder is below the sweep's folder. A file
/// may set both run.dir, for a single run, and sweep.dir.
Diagnostics run_folder_of_trial(const Value& recipe);

/// Returns errors for overrides of `sweep`, which a single run does not use.
Diagnostics sweep_keys_of_single_run(const Composition& composition);

/// Returns errors for overrides of `run` in a run that is resumed in its own folder.
Diagnostics run_keys_of_resumed_run(const Composition& composition);

/// True if an override of `key`, as typed, controls how a sweep is run.
bool is_sweep_key(std::string_view key);

}  // namespace runner
