#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "runner/shared/value/value.h"

namespace runner {

/// By which metric a training says which of its validations is the best, as its options have it.
struct Monitor {
  std::string metric;  ///< as it is recorded: "validation/loss"
  bool is_smaller_better = false;
  double minimum_improvement = 0;  ///< what a better one must be better by, and more
  bool keeps_best = true;          ///< the weights of the best validation are handed on, not the last ones
};

/// Of the options of a training; nullopt where they name no metric.
std::optional<Monitor> monitor_of(const Value& options);

/// Follows the metrics of a training as its checkpoints do: at which step its monitored metric was best, and what it
/// measured there.
class BestValidation {
 public:
  explicit BestValidation(Monitor monitor) : monitor_(std::move(monitor)) {}

  /// Takes note of a metric, in the order in which they were measured.
  void see(const std::string& name, double value, std::int64_t step);

  const Monitor& monitor() const { return monitor_; }
  /// The step after which it was best; nullopt: nothing was validated.
  std::optional<std::int64_t> best_step() const { return best_step_; }
  /// What was measured there, by name.
  const std::map<std::string, double>& best_values() const { return best_; }
  /// The validation metrics of the weights that are handed on, by name: those of the best step, or of the last.
  const std::map<std::string, double>& kept() const { return monitor_.keeps_best ? best_ : last_; }
  /// Where they were measured; 0: nowhere.
  std::int64_t kept_step() const { return monitor_.keeps_best ? best_step_.value_or(0) : last_step_; }

 private:
  Monitor monitor_;
  std::int64_t last_step_ = 0;
  std::optional<std::int64_t> best_step_;
  double best_value_ = 0;
  std::map<std::string, double> last_, best_;
};

}  // namespace runner
