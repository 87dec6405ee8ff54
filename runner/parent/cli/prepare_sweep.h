#pragma once

#include <cstdint>
#include <optional>
#include <string>
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

/// One trial of a sweep: a resolved recipe that is never re-parsed from text.
struct PreparedTrial {
  std::uint64_t number;             ///< zero-based index in the order of the whole sweep
  std::vector<Override> overrides;  ///< the overrides that set it apart from other trials
  Value recipe;                     ///< validated, and with all defaults filled in
  std::string hash;  ///< SHA-256 of `recipe` as JSON with its keys sorted, in hexadecimal
};

/// Every trial of a sweep, each composed, validated and compiled.
struct PreparedSweep {
  std::vector<PreparedTrial> jobs;
  std::string dir;                  ///< sweep.dir; empty: multirun/<date>/<time>
  std::optional<AshaOptions> asha;  ///< sweep.asha
  TrialNodes nodes = {};            ///< the nodes of its trials
  Value launcher = {};              ///< sweep.launcher, with all defaults; null: this machine
  Diagnostics warnings;
};

/// Returns the number of threads for a trial with `threads: auto` when `slots` trials run at once:
/// an equal share of the processor's threads, at least 1. The number of threads affects the exact
/// bits of the result, so it is set before the recipe is hashed. With one slot, `auto` stays in the
/// recipe.
std::int64_t threads_of_slot(std::int64_t slots);

/// Prepares the trials defined by the recipe's `sweep.params` and the command line; a key on the
/// command line takes precedence over the same key in the recipe. Each error is reported once, with
/// the number of trials that it affects. Warns about trials that have the same recipe.
Result<PreparedSweep> prepare_sweep(const NamedRecipe& named, const SchemaSet& schemas,
                                    Sources& sources, std::int64_t slots = 1);

}  // namespace runner
