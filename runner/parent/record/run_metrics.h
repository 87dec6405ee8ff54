#pragma once

#include <map>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace runner {

/// What a run has measured, by its summary.json. A metric has one name everywhere, that by which it
/// is recorded: what evaluations measure is "evaluate/...", what trainings do "train/..." and
/// "validation/...". Of a validation it is the value of the weights that the training hands on, so
/// that all that a run has measured is of the same weights.
struct RunMetrics {
  struct Value {
    double value = 0;
    std::int64_t step = 0;
  };
  std::map<std::string, std::map<std::string, Value>> nodes = {};  ///< by node and name

  /// Of the only training of the run; empty where there is none, or there are several.
  std::string trained_by = {};  ///< its kind, "train.supervised"
  std::string monitor =
      {};  ///< the metric that says which of its epochs is best: "validation/loss"

  /// By name; of names that several nodes have, by "node:name".
  std::map<std::string, double> values() const;
};

/// Nothing in `summary` makes this fail.
RunMetrics run_metrics(const nlohmann::ordered_json& summary);

}  // namespace runner
