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

/// One run of a sweep: a resolved recipe, never a text to be read again.
struct Job {
  std::uint64_t number;             ///< from 0, in the order of the whole sweep
  std::vector<Override> overrides;  ///< what it sets: of these jobs differ
  Value recipe;                     ///< validated, every default filled in
  std::string hash;  ///< SHA-256 of `recipe` as JSON with its keys sorted, in hexadecimal
};

/// Every run of a sweep, each composed, validated and compiled.
struct PreparedSweep {
  std::vector<Job> jobs;
  std::string dir;                  ///< sweep.dir; empty: multirun/<date>/<time>
  std::optional<AshaOptions> asha;  ///< sweep.asha
  TrialNodes nodes = {};            ///< of its jobs
  Value launcher = {};              ///< sweep.launcher, with every default; null: this machine
  Diagnostics warnings;
};

/// The threads of a run of which `slots` are at work at a time, where its recipe says auto: its
/// part of the processor. They are part of its bits, so they are settled before it is hashed. With
/// one slot the recipe stays as it is.
std::int64_t threads_of_slot(std::int64_t slots);

/// The jobs of the recipe's `sweep.params` and of the command line, whose keys replace those of the
/// recipe. Everything wrong in any of them is reported, once, with the number of runs that it
/// spoils. Jobs that come to the same recipe are warned of.
Result<PreparedSweep> prepare_sweep(const NamedRecipe& named, const SchemaSet& schemas,
                                    Sources& sources, std::int64_t slots = 1);

// Keys of the whole recipe that some verbs have no use for. What is typed for nothing is refused.

/// run.dir in a trial of a sweep, whose folder is below the sweep's. A file may say both run.dir,
/// for a single run, and sweep.dir.
Diagnostics run_folder_of_trial(const Value& recipe);

/// Overrides of `sweep` where there is one run.
Diagnostics sweep_keys_of_single_run(const Composition& composition);

/// Of an override of `run` where a run goes on in its own folder.
Diagnostics run_keys_of_resumed_run(const Composition& composition);

/// Does the override `key`, as typed, say how a sweep is done?
bool is_sweep_key(std::string_view key);

}  // namespace runner
