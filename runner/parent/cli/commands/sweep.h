#pragma once

#include <nlohmann/json_fwd.hpp>

#include "runner/parent/cli/command.h"
#include "runner/parent/cli/prepare_sweep.h"
#include "runner/parent/cli/sweep_slots.h"
#include "runner/parent/sweep/run_trials.h"
#include "runner/parent/sweep/sweep_journal.h"
#include "runner/parent/sweep/sweep_results.h"

namespace runner {

/// How `retort sweep` runs its trials.
struct SweepFlags {
  NamedRecipe recipe;
  bool dry_run = false;          ///< list the trials without starting them
  std::string slots_text = "1";  ///< the argument of --slots
  SlotRequest slots = {};        ///< `slots` parsed
  std::int64_t retries = 0, time_out_minutes = 0;
  bool fail_fast = false;
  std::string
      launcher;  ///< an option of the `launcher` group; empty: the recipe's, or this machine
  ReuseFlags reuse;
  bool force = false;  ///< resume even if inputs have changed
  LogFlags log;
  std::string metric = "auto";  ///< the metric by which trials are compared
};

/// Returns the number of slots, the retries and the limits in `flags`.
TrialOptions trial_options(const SweepFlags& flags);
/// Returns what every trial is started with: the program, its arguments and its output streams.
TrialSurroundings trial_surroundings(const SweepFlags& flags, Console& console);
/// Creates the folder of a new sweep: `given`, the value of sweep.dir, or one named after the
/// current time if `given` is empty.
Result<std::filesystem::path> make_sweep_folder(const std::string& given);
/// Writes the recipe of a trial to its file. Returns an error if the trial needs a secret given
/// only on the command line, since the file never contains secrets. Throws WriteError.
Diagnostics write_recipe(const PreparedTrial& job, const SweepLayout& layout, Sources& sources);

/// Implements `retort sweep ask-tell NAME`: an external sampler requests trials by writing lines of
/// JSON to stdin and receives the results on stdout (ask_tell.h). `retort sweep ask-tell resume
/// DIR` continues such a sweep after it has been stopped or killed.
ExitCode ask_and_tell(const SweepFlags& flags, Console& console);

/// Opens the sweep in `folder` to continue it, and changes to the working directory in which it was
/// started. Fails like SweepJournal::reopen(), or with kMissingFolder if that directory no longer
/// exists.
Result<SweepJournal> reopen_sweep(const std::filesystem::path& folder, Console& console);
/// Returns only the errors in `found`.
Diagnostics errors_among(const Diagnostics& found);

/// Runs every trial of a new sweep in its own folder or, for a dry run, lists the trials.
ExitCode begin_sweep(const SweepFlags& flags, Console& console);

}  // namespace runner
