#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <nlohmann/json_fwd.hpp>

#include "stages/artifact/targets.h"
#include "stages/evaluate/bootstrap.h"

namespace stages {

/// Test samples with values to predict, all in the targets' units: (n, targets) float64 on the CPU,
/// contiguous.
struct PredictedTargets {
  std::vector<std::string> names;  ///< of the targets
  at::Tensor predictions, targets;
};

/// The errors of predictions, and those of always predicting the mean of the training samples.
struct RegressionMetrics {
  std::int64_t samples = 0;
  std::vector<TargetErrors> of_targets;
  TargetErrors mean;                      ///< over the targets
  std::optional<TargetErrors> baseline;   ///< nullopt: the training means are unknown
  std::vector<TargetErrors> baseline_of;  ///< one per target; empty without a baseline
  std::int64_t draws = 0;                 ///< number of bootstrap draws
  /// 95% confidence intervals for "mae", "rmse" and "r2" from `draws` draws; empty without draws.
  std::map<std::string, NumberInterval> intervals = {};
};

/// Computes the metrics; there must be at least one sample. `means` are the means of the training
/// samples' targets, one for each target, or empty. The intervals come from `draws` bootstrap draws
/// of the samples, which are a function of `seed`; a draw in which r2 is undefined is left out of
/// its interval.
RegressionMetrics regression_metrics(const PredictedTargets& tested,
                                     const std::vector<double>& means, std::int64_t draws,
                                     std::uint64_t seed);

/// Returns the number of bytes that regression_metrics() allocates for this many samples and
/// targets, plus the size of the predictions passed to it.
std::int64_t regression_metric_bytes(std::int64_t samples, std::int64_t targets);

/// Returns the metrics to record, omitting undefined ones: mae, rmse, r2, baseline_mae,
/// baseline_rmse, samples, and mae/NAME, rmse/NAME and r2/NAME if there are several targets.
std::vector<std::pair<std::string, double>> summary(const RegressionMetrics& metrics,
                                                    const std::vector<std::string>& names);

/// Returns the members of metrics.json: "samples", "mae", "rmse", "r2" (null: undefined),
/// "intervals", "baseline", "per_target".
nlohmann::ordered_json to_json(const RegressionMetrics& metrics,
                               const std::vector<std::string>& names);

/// Returns "mean absolute error 4.12 (95% interval 3.80–4.44), …".
std::string headline(const RegressionMetrics& metrics);

}  // namespace stages
