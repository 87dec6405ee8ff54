#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runner/parent/report/bootstrap.h"
#include "runner/shared/error/diagnostic.h"

namespace runner {

/// The predictions.csv of an evaluation with classes: one row per sample.
struct PredictionTable {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;      ///< each has as many fields as there are columns
  std::size_t name = 0, label = 0, predicted = 0;  ///< positions of these columns
  std::optional<std::size_t> group;  ///< the column that groups samples that belong together
  std::vector<std::size_t> best;     ///< the columns top_1, top_2, …
  std::vector<std::string> grades;   ///< grades in order, for an evaluation of grades
  /// The columns with the probabilities of `grades`; empty if there are none.
  std::vector<std::size_t> probabilities;
  /// The column with the probability of the sample's label, if there is one.
  std::optional<std::size_t> label_probability;
};

/// Reads nodes/<node>/predictions.csv of a run's `folder`. kNoResults if there is no such file,
/// kDamagedRecord if it has another format.
Result<PredictionTable> read_prediction_table(const std::filesystem::path& folder,
                                              const std::string& node);

/// A metric over the samples of all tables, with its 95 % interval.
struct PooledMetric {
  std::string name;  ///< "top1"
  double value = 0;
  BootstrapInterval interval = {};
};

/// Metrics over the samples of several tables.
struct PooledMetrics {
  std::int64_t samples = 0;
  std::int64_t groups = 0;  ///< what the bootstrap draws: groups, and samples without one
  bool has_groups = false;  ///< some samples have a group
  std::int64_t draws = 0;   ///< number of bootstrap samples
  std::uint64_t seed = 0;
  std::vector<PooledMetric> metrics;
};

/// Computes the metrics of an evaluation of classes or grades that can be derived from its
/// predictions, over the samples of all tables together: top1; top<k> for the given `ks` that the
/// tables have; mean_per_class, macro and weighted precision, recall and f1, as scikit-learn
/// defines them with zero_division=0; quadratic_kappa, for grades; log_loss, if all tables have the
/// probability of each label; and auc_macro, the mean over classes of the area under the ROC curve
/// of one class against the others, if all tables have the probability of each grade. A class that
/// has no samples in a draw counts as it does in an evaluation
/// (stages/evaluate/classification_metrics.h). The bootstrap draws as many groups as there are,
/// with all their samples, depending only on `seed`; draws in which kappa is undefined are left out
/// of its percentiles. Samples from which an ensemble abstains are left out; if there are no other
/// samples, the result is empty.
PooledMetrics pooled_metrics(std::span<const PredictionTable> tables,
                             const std::vector<std::size_t>& ks, std::uint64_t seed);

}  // namespace runner
