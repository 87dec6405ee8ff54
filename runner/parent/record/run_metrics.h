#pragma once

#include <map>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace runner {

/// What a run has measured, from its summary.json. A metric has one name everywhere, the one it is
/// recorded by: "evaluate/..." for evaluations, "train/..." and "validation/..." for trainings. A
/// validation metric has the value for the weights that the training hands on, so that all metrics
/// of a run belong to the same weights.
struct RunMetrics {
  struct Value {
    double value = 0;
    std::int64_t step = 0;
  };
  std::map<std::string, std::map<std::string, Value>> nodes = {};  ///< by node and name

  /// For the only training of the run; empty if there is none, or several.
  std::string trained_by = {};  ///< its kind, "train.supervised"
  std::string monitor = {};     ///< the metric that picks its best epoch: "validation/loss"

  /// By name; if several nodes have a name, by "node:name".
  std::map<std::string, double> values() const;
};

/// Never fails, whatever `summary` contains.
RunMetrics run_metrics(const nlohmann::ordered_json& summary);

}  // namespace runner
