#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/parent/report/table_text.h"
#include "runner/parent/sweep/cross_validation.h"
#include "runner/parent/sweep/sweep_journal.h"
#include "runner/shared/text/terminal.h"

namespace runner {

/// A trial and its metrics.
struct TrialResult {
  Trial trial;
  std::map<std::string, std::string> settings;  ///< settings by key, without the override prefixes
  std::map<std::string, double> metrics;        ///< by name: RunMetrics::values()
  std::optional<std::int64_t> planned_bytes = {};  ///< planned_bytes_of() its run
};

/// The metric by which trials are compared.
struct Objective {
  std::string metric;
  bool is_smaller_better = false;
  bool is_of_test = false;  ///< measured on the test data
  /// True if it was chosen automatically even though it is measured on the test data, because no
  /// trial has been validated.
  bool is_for_want = false;
};

/// Returns "smallest" or "largest", depending on which value is best.
std::string best_word(const Objective& objective);

/// The mean over trials that differ only in `seed` or, for an effect, share a value of a key.
struct TrialMean {
  std::string what;  ///< "train.epochs=5"
  std::size_t trials = 0;
  double mean = 0;
  std::optional<double> half_interval;  ///< 95%, by Student's t; nullopt for one trial
};

/// The results of a sweep, read from the runs in its folder, so they do not depend on how many
/// times the sweep was interrupted.
struct SweepResults {
  std::vector<std::string> keys;       ///< keys set by the trials, in order of first appearance
  std::vector<std::string> metrics;    ///< metrics of any trial, evaluation metrics first
  std::optional<Objective> objective;  ///< nullopt: nothing was measured
  std::vector<TrialResult> trials;
  std::vector<CrossValidation> cross_validations = {};  ///< read if folds.index is swept

  /// Returns the trial with the best value, the first if several are equal; nullptr if none has a
  /// value.
  const TrialResult* best() const;
  /// Returns, for each value of each key with several values, the mean over all trials with that
  /// value.
  std::vector<TrialMean> effects() const;
  /// If `seed` is swept, returns the mean over the seeds for each combination of other settings.
  std::vector<TrialMean> over_seeds() const;
};

/// Reads the results of a sweep. For a trial that was stopped early, only its value at the last
/// rung counts, because the exact time at which it stopped is a matter of chance. `wanted` is a
/// metric's full name or "auto": the metric that the trials monitor, or else the metric by which
/// runs are chosen (main_metric.h). A wanted metric that no trial has is still the objective, but
/// best() is null. Cross-validations are read only if `sources` is not null; the texts of their
/// recipes are added to it.
SweepResults read_results(const std::filesystem::path& sweep, const SweepPlan& plan,
                          const std::string& wanted = "auto", Sources* sources = nullptr);

/// Returns a row for each of the first `most` trials: number, state, settings, the most important
/// metrics and time.
TableRows trial_rows(const SweepResults& results, std::size_t most);
/// Returns a row for each mean, under the heading `title`; if there are none, only the heading.
TableRows mean_rows(const std::string& title, const std::string& metric,
                    const std::vector<TrialMean>& means);

/// Returns a table with the best trial, the effect of each key, the means over seeds and the
/// cross-validations. The table includes the numbers of trained parameters and planned bytes if
/// they differ between trials. Trials with different folds are not comparable, so no best trial is
/// shown with cross-validations.
std::string results_text(const SweepResults& results, const TextStyle& style = {});
/// Returns one line for each trial, with all metrics.
std::string results_csv(const SweepResults& results);
nlohmann::ordered_json to_json(const SweepResults& results);

/// Writes a sweep's results.csv, results.json and, if there are out-of-fold predictions,
/// out_of_fold.csv; returns the contents of results.json. Throws WriteError.
nlohmann::ordered_json write_results(const SweepJournal& journal, const SweepResults& results);

}  // namespace runner
