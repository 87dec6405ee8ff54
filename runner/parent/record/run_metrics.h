#pragma once

#include <filesystem>
#include <map>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace runner {

/// The metrics of a run, from its summary.json. A metric has the same name everywhere, namely the
/// one under which it is recorded: "evaluate/..." for evaluations, "train/..." and "validation/..."
/// for training stages. A validation metric is measured with the weights that the training stage
/// outputs, so all metrics of a run describe the same weights.
struct RunMetrics {
  struct Value {
    double value = 0;
    std::int64_t step = 0;
  };
  std::map<std::string, std::map<std::string, Value>> nodes = {};  ///< keyed by node and by name

  /// Describes the run's only training stage; empty if there is none or if there are several.
  std::string trained_by = {};  ///< its kind, "train.supervised"
  std::string monitor = {};     ///< the metric that picks its best epoch: "validation/loss"

  /// Returns all metrics by name, or by "node:name" if several nodes use the same name.
  std::map<std::string, double> values() const;
};

/// Reads the metrics of the run in `folder`; none if it has no summary.
RunMetrics metrics_of_run(const std::filesystem::path& folder);

/// Reads the metrics in `summary`. Never fails, regardless of what `summary` contains.
RunMetrics run_metrics(const nlohmann::ordered_json& summary);

}  // namespace runner
