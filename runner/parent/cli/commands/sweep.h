#pragma once

#include <nlohmann/json_fwd.hpp>

#include "runner/parent/cli/command.h"
#include "runner/parent/cli/prepare_sweep.h"
#include "runner/parent/cli/sweep_slots.h"
#include "runner/parent/sweep/run_trials.h"
#include "runner/parent/sweep/sweep_journal.h"
#include "runner/parent/sweep/sweep_results.h"

namespace runner {

/// How `retort sweep` runs what it lists.
struct SweepFlags {
  NamedRecipe recipe;
  bool dry_run = false;          ///< list the trials and start none
  std::string slots_text = "1";  ///< of --slots
  SlotWish slots = {};           ///< what that says
  std::int64_t retries = 0, time_out_minutes = 0;
  bool fail_fast = false;
  std::string
      launcher;  ///< an option of the group `launcher`; empty: the recipe's own, or this machine
  ReuseFlags reuse;
  bool force = false;  ///< resume although inputs are not what they were
  LogFlags log;
  std::string metric = "auto";  ///< that trials are compared by
};

/// What of them says how trials are run, and where.
TrialOptions trial_options(const SweepFlags& flags);
TrialSurroundings trial_surroundings(const SweepFlags& flags, Console& console);
/// The folder of a new sweep: `given`, its sweep.dir, or one of this minute.
Result<std::filesystem::path> make_sweep_folder(const std::string& given);
/// The recipe of a trial, in its file. A secret that only the command line knows would not be in
/// it: an error. Throws WriteError.
Diagnostics write_recipe(const Job& job, const SweepLayout& layout, Sources& sources);

/// `retort sweep ask-tell NAME`: the trials of a sweep are those that a sampler outside asks for,
/// by lines of JSON on stdin, and it is told on stdout what they came to (ask_tell.h). `retort
/// sweep ask-tell resume DIR` goes on with one that was stopped or killed.
ExitCode ask_and_tell(const SweepFlags& flags, Console& console);

/// The sweep in `folder`, to be continued; the process goes to the folder where it was begun.
/// Errors as of SweepJournal::reopen(), and kMissingFolder.
Result<SweepJournal> reopen_sweep(const std::filesystem::path& folder, Console& console);
/// Those that are no warnings.
Diagnostics errors_among(const Diagnostics& found);

/// Runs every trial of a sweep in a folder of its own, or lists them.
ExitCode begin_sweep(const SweepFlags& flags, Console& console);

}  // namespace runner
