#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/parent/report/pooled_predictions.h"
#include "runner/parent/report/table_text.h"
#include "runner/parent/sweep/sweep_journal.h"
#include "runner/shared/text/terminal.h"

namespace runner {

/// A fold of a cross-validation, and the trial that validates it.
struct FoldResult {
  std::int64_t fold = 0;  ///< counted from 0
  std::uint64_t trial = 0;
  TrialState state = TrialState::kWaiting;
  std::map<std::string, double> metrics;  ///< for the fold; empty unless the trial has finished
  /// The fold's out-of-fold predictions; nullopt if there are none.
  std::optional<PredictionTable> predictions;
};

/// A metric over the folds with finished trials.
struct FoldMean {
  std::string metric;
  std::size_t folds = 0;
  double mean = 0;
  std::optional<double> deviation;  ///< the sample standard deviation; nullopt for one fold
};

/// Trials of a sweep that differ only in folds.index, and the results of one of their evaluations.
struct CrossValidation {
  std::string settings;  ///< what distinguishes them from other trials of the sweep; may be empty
  std::string node;      ///< the node that evaluates the fold; empty: none
  std::int64_t count = 0;
  std::vector<FoldResult> folds;  ///< the folds that have a trial, in order
  std::optional<PooledMetrics> pooled;
  std::string not_pooled;  ///< why `pooled` is missing, as a clause; else empty

  /// Returns the metrics that any fold has, with the most important ones first.
  std::vector<FoldMean> means() const;
};

/// Reads the cross-validations of a sweep from its trials' recipes and runs: groups of trials that
/// differ only in folds.index, with one result for each evaluation of the fold. Trials that all use
/// the same fold are not a cross-validation. Predictions are pooled only if every fold has a
/// finished trial with predictions and no sample is in two folds. The intervals are the same on
/// every call. The texts of the recipes are added to `sources`.
std::vector<CrossValidation> read_cross_validations(const std::filesystem::path& sweep,
                                                    const std::vector<Trial>& trials,
                                                    Sources& sources);

/// Returns the rows of a cross-validation's table: its folds, then their summaries.
TableRows fold_rows(const CrossValidation& all);
/// Returns a line explaining how the intervals in the table were computed, or why they are missing.
std::string fold_remarks(const CrossValidation& all);

/// Returns a table for each cross-validation: the metrics of each fold, their mean and standard
/// deviation, and the pooled metrics with their intervals.
std::string cross_validation_text(const std::vector<CrossValidation>& all,
                                  const TextStyle& style = {});

/// Returns the out-of-fold predictions of all cross-validations as one CSV: trial, fold and node,
/// then the columns of predictions.csv. Empty if there are none.
std::string out_of_fold_csv(const std::vector<CrossValidation>& all);

/// Returns the list described in schemas/output/sweep_results.json.
nlohmann::ordered_json to_json(const std::vector<CrossValidation>& all);

}  // namespace runner
