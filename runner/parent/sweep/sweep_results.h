#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/parent/sweep/sweep_journal.h"

namespace runner {

/// A trial and its metrics.
struct TrialResult {
  Trial trial;
  std::map<std::string, std::string> settings;  ///< by key, without the prefixes of overrides
  std::map<std::string, double> metrics;        ///< by name: RunMetrics::values()
};

/// The metric that compares trials.
struct Objective {
  std::string metric;
  bool is_smaller_better = false;
  bool is_of_test = false;   ///< it is measured on the test data
  bool is_for_want = false;  ///< it is, because no trial has a validation and no metric was named
};

/// "smallest" or "largest": which value is best.
std::string best_word(const Objective& objective);

/// The mean over trials that differ only in `seed` or, for an effect, that share one value of a
/// key.
struct TrialMean {
  std::string what;  ///< "train.epochs=5"
  std::size_t trials = 0;
  double mean = 0;
  std::optional<double> half_interval;  ///< of 95 %, by Student's t; nullopt for one trial
};

/// The results of a sweep, read from the runs below its folder, so that they do not depend on how
/// often the sweep was stopped.
struct SweepResults {
  std::vector<std::string> keys;       ///< keys that trials set, in order of first appearance
  std::vector<std::string> metrics;    ///< metrics that any trial has, those of evaluations first
  std::optional<Objective> objective;  ///< nullopt: nothing was measured
  std::vector<TrialResult> trials;

  /// The trial with the best value; the first of equals. nullptr if none has a value.
  const TrialResult* best() const;
  /// The mean over all trials with each value of each key that has several values.
  std::vector<TrialMean> effects() const;
  /// If `seed` is swept: the mean over the seeds for each combination of the other settings.
  std::vector<TrialMean> over_seeds() const;
};

/// For a trial that was stopped early only its value at the last rung counts, because the moment at
/// which it stopped is chance. `wanted`: a metric's full name, or "auto": what the trials'
/// trainings monitor, or else the metric by which runs are chosen (main_metric.h). A wanted metric
/// that no trial has is still the objective, and best() is null.
SweepResults read_results(const std::filesystem::path& sweep, const SweepPlan& plan,
                          const std::string& wanted = "auto");

/// A table with the best trial, the effect of each key and the means over seeds.
std::string results_text(const SweepResults& results);
/// One line for each trial, with all metrics.
std::string results_csv(const SweepResults& results);
nlohmann::ordered_json to_json(const SweepResults& results);

/// Writes results.csv and results.json of a sweep; returns the content of the latter. Throws
/// WriteError.
nlohmann::ordered_json write_results(const SweepJournal& journal, const SweepResults& results);

}  // namespace runner
