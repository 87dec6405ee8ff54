#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <ostream>

#include "runner/error/exit_code.h"
#include "runner/error/verbosity.h"
#include "runner/run/progress_display.h"
#include "runner/sweep/sweep_journal.h"

namespace runner {

/// How the trials of a sweep are run.
struct TrialOptions {
  std::int64_t slots = 1;                        ///< trials at a time
  std::int64_t retries = 0;                      ///< further attempts of one that fails
  std::optional<std::chrono::minutes> time_out;  ///< of an attempt, which is then asked to save and counts as failed
  bool fail_fast = false;                        ///< after a failure nothing is started, and what runs saves and stops
};

/// Where they run, and who watches.
struct TrialSurroundings {
  std::filesystem::path program;  ///< retort itself: a trial is a process of its own, `retort run` or `retort resume`
  std::ostream& talk;             ///< stderr
  Verbosity verbosity = Verbosity::kNormal;
  std::vector<std::string> arguments = {};  ///< further ones of each trial
  DisplayOptions display = {};              ///< of stderr: on a terminal the trials stand below what is said
  std::ostream* out = nullptr;              ///< stdout, for a launcher that prints what is to be applied; null: nowhere
};

/// Runs what the journal says is still to be done: each trial that has not finished, or whose run is no longer there,
/// in the order of their numbers. A run that was begun is resumed; one that cannot be is set aside, and begun anew.
/// What fails is told at once. SIGINT, SIGTERM and SIGHUP have the trials at work save and stop; the journal knows
/// them as interrupted.
/// kDone where all have finished, kSomeTrialsFailed, or how the program ends that was stopped (stop.h). Throws
/// WriteError.
ExitCode run_trials(SweepJournal& journal, const TrialOptions& options, const TrialSurroundings& surroundings);

}  // namespace runner
