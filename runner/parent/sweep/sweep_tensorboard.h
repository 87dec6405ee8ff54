#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runner/parent/record/hparams.h"
#include "runner/parent/sweep/sweep_journal.h"
#include "runner/parent/sweep/sweep_results.h"

namespace runner {

/// Returns the settings of the trial with its run in `run`; empty if that is not a trial.
Hparams hparams_of_trial(const std::filesystem::path& run);

/// Returns the hyperparameters that differ between trials, and the metrics to compare: the
/// objective and the results of all evaluations.
HparamsExperiment experiment_of(const std::filesystem::path& sweep, const SweepPlan& plan,
                                const SweepResults& results);

/// Writes experiment_of() for the sweep in `sweep` into its folder tensorboard/, if its trials
/// write such files (run.tensorboard). Throws WriteError.
void write_experiment(const std::filesystem::path& sweep, const SweepPlan& plan,
                      const SweepResults& results);

/// Writes a sweep and all its recorded trials into the existing `folder` as TensorBoard event
/// files, each trial in a subfolder with its number. Returns the files below `folder`; empty if
/// nothing was measured. Throws WriteError or std::filesystem::filesystem_error.
std::vector<std::string> write_sweep_tensorboard(const std::filesystem::path& sweep,
                                                 const SweepPlan& plan,
                                                 const std::filesystem::path& folder);

}  // namespace runner
