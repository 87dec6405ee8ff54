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
  bool dry_run = false;          ///< list the trials and start none
  std::string slots_text = "1";  ///< the argument of --slots
  SlotWish slots = {};           ///< its parsed value
  std::int64_t retries = 0, time_out_minutes = 0;
  bool fail_fast = false;
  std::string
      launcher;  ///< an option of the group `launcher`; empty: the recipe's own, or this machine
  ReuseFlags reuse;
  bool force = false;  ///< resume although inputs have changed
  LogFlags log;
  std::string metric = "auto";  ///< the metric that compares trials
};

/// The part of the flags that sets how and where trials run.
TrialOptions trial_options(const SweepFlags& flags);
TrialSurroundings trial_surroundings(const SweepFlags& flags, Console& console);
/// Creates the folder of a new sweep: `given` (its sweep.dir), or one named after the current
/// minute.
Result<std::filesystem::path> make_sweep_folder(const std::string& given);
/// Writes the recipe of a trial to its file. A secret that only the command line has would be
/// missing there, which is an error. Throws WriteError.
Diagnostics write_recipe(const PreparedTrial& job, const SweepLayout& layout, Sources& sources);

/// `retort sweep ask-tell NAME`: an external sampler asks for the trials with lines of JSON on
/// stdin, and gets their results on stdout (ask_tell.h). `retort sweep ask-tell resume DIR`
/// continues one that was stopped or killed.
ExitCode ask_and_tell(const SweepFlags& flags, Console& console);

/// Opens the sweep in `folder` to continue it; changes the working directory to the one in which it
/// was begun. Errors as for SweepJournal::reopen(), and kMissingFolder.
Result<SweepJournal> reopen_sweep(const std::filesystem::path& folder, Console& console);
/// The diagnostics that are not warnings.
Diagnostics errors_among(const Diagnostics& found);

/// Runs every trial of a sweep in its own folder, or lists the trials.
ExitCode begin_sweep(const SweepFlags& flags, Console& console);

}  // namespace runner
