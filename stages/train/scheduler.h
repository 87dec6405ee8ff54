#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "stages/train/schedule.h"

namespace stages {

/// What a PlateauSchedule knows of the past.
struct PlateauState {
  std::optional<double> best;  ///< empty until a validation gave a finite number
  std::int64_t bad_validations = 0;
  std::int64_t cooldown_left = 0;
  std::int64_t reductions = 0;

  bool operator==(const PlateauState&) const = default;
};

/// Takes note of a validation. One that is not finite is never better.
void observe(PlateauState& state, const PlateauSchedule& schedule, double value, bool higher_is_better);

/// Numbers keep every bit.
nlohmann::json to_json(const PlateauState& state);
/// Throws std::invalid_argument if that is not what to_json() gave.
PlateauState plateau_state_from_json(const nlohmann::json& json);

/// A schedule at work in one training, for all groups of its parameters.
///
///   const std::vector<Rates> rates = scheduler.at(step, epoch);
///   scheduler.observe(accuracy);  // after a validation
class Scheduler {
 public:
  /// `learning_rates` of the groups; a training of `steps` steps; which way the number that is observed gets better.
  Scheduler(Schedule schedule, std::vector<double> learning_rates, std::int64_t steps, bool higher_is_better);

  /// The rates of every group, both counted from 0.
  std::vector<Rates> at(std::int64_t step, std::int64_t epoch) const;

  /// Takes note of the monitored number of a validation: what a plateau is told by.
  void observe(double value);

  /// All that must be saved to continue as if never interrupted. load_state() throws std::invalid_argument for anything
  /// else.
  nlohmann::json state() const;
  void load_state(const nlohmann::json& state);

 private:
  const Schedule schedule_;
  const std::vector<double> learning_rates_;
  const std::int64_t steps_;
  const bool higher_is_better_;
  PlateauState plateau_;
};

}  // namespace stages
