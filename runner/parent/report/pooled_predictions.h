#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runner/parent/report/bootstrap.h"
#include "runner/parent/report/prediction_table.h"

namespace runner {

/// A metric over the samples of all tables, with its 95% confidence interval.
struct PooledMetric {
  std::string name;  ///< "top1"
  double value = 0;
  BootstrapInterval interval = {};
};

/// Metrics over the samples of several tables.
struct PooledMetrics {
  std::int64_t samples = 0;
  std::int64_t groups = 0;  ///< number of units that the bootstrap draws: groups, and samples
                            ///< without a group
  bool has_groups = false;  ///< some samples have a group
  std::int64_t draws = 0;   ///< number of bootstrap samples
  std::uint64_t seed = 0;
  std::vector<PooledMetric> metrics;
};

/// Computes the metrics of an evaluation that can be derived from its predictions, over the samples
/// of all tables together. The tables must be of one kind:
///
/// - classes or grades: top1; top<k> for the given `ks` that the tables have; mean_per_class, macro
///   and weighted precision, recall and f1, as scikit-learn defines them with zero_division=0;
///   quadratic_kappa and mean_absolute_error, for grades; log_loss, if all tables have the
///   probability of each label; and auc_macro, the mean over classes of the area under the ROC
///   curve of one class against the others, if all tables have the probability of each grade. A
///   class that has no samples in a draw counts as it does in an evaluation
///   (stages/evaluate/classification_metrics.h).
/// - several labels: those of stages/evaluate/multi_label_metrics.h.
/// - numbers: mae, rmse and r2, means over the targets, and those of each of several targets.
///
/// The bootstrap draws as many groups as there are, with all their samples, as a function of
/// `seed`; a draw in which a metric is undefined is excluded from that metric's percentiles.
/// Samples from which an ensemble abstains are left out; if no samples remain, or for other tables,
/// the result is empty.
PooledMetrics pooled_metrics(std::span<const PredictionTable> tables,
                             const std::vector<std::size_t>& ks, std::uint64_t seed);

}  // namespace runner
