#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/parent/sweep/sweep_journal.h"

namespace runner {

/// A trial with what it measured.
struct TrialResult {
  Trial trial;
  std::map<std::string, std::string> settings;  ///< by key, without the prefixes of overrides
  std::map<std::string, double> metrics;        ///< by name: RunMetrics::values()
};

/// By which metric trials are compared.
struct Objective {
  std::string metric;
  bool is_smaller_better = false;
  bool is_of_test = false;  ///< it is measured on the test data
  bool is_for_want =
      false;  ///< it is that because no trial has been validated, and nobody has named one
};

/// "smallest" or "largest": which value of it is best.
std::string best_word(const Objective& objective);

/// The mean over trials that differ in nothing but `seed` or, as an effect, that share one value of
/// a key.
struct TrialMean {
  std::string what;  ///< "train.epochs=5"
  std::size_t trials = 0;
  double mean = 0;
  std::optional<double> half_interval;  ///< of 95 %, by Student's t; nullopt of one trial
};

/// What a sweep came to: read from the runs below its folder, so that it is the same however often
/// it was stopped.
struct SweepResults {
  std::vector<std::string> keys;       ///< that trials set, in the order in which they first come
  std::vector<std::string> metrics;    ///< that any trial has, those of evaluations first
  std::optional<Objective> objective;  ///< nullopt: nothing was measured
  std::vector<TrialResult> trials;

  /// The trial with the best value; the first of equals. nullptr where none has any.
  const TrialResult* best() const;
  /// Of each value of each key that has several, the mean over all trials with it.
  std::vector<TrialMean> effects() const;
  /// Where `seed` is swept: of each other choice the mean over its seeds.
  std::vector<TrialMean> over_seeds() const;
};

/// Of a trial that was stopped only its value at the last rung counts: when it heard of that is
/// chance. `wanted`: a metric's whole name, or "auto": what the trials' trainings monitor, or else
/// the metric by which runs are chosen (main_metric.h). A wanted one that no trial has is the
/// objective all the same, and best() is null.
SweepResults read_results(const std::filesystem::path& sweep, const SweepPlan& plan,
                          const std::string& wanted = "auto");

/// A table for a person, with the best trial, the effect of each key and the means over seeds.
std::string results_text(const SweepResults& results);
/// A line for each trial, all metrics in it.
std::string results_csv(const SweepResults& results);
nlohmann::ordered_json to_json(const SweepResults& results);

/// results.csv and results.json of a sweep, and what the latter holds. Throws WriteError.
nlohmann::ordered_json write_results(const SweepJournal& journal, const SweepResults& results);

}  // namespace runner
