#pragma once

#include <cstdint>
#include <optional>

#include <nlohmann/json_fwd.hpp>

namespace stages {

/// Lowers the rate whenever a measured number stops getting better: torch's ReduceLROnPlateau, stepped after every
/// validation.
struct PlateauSchedule {
  double factor = 0.5;
  std::int64_t patience = 0;  ///< validations without anything better that are waited through
  double threshold = 0;       ///< by how much a number must be better to count
  bool relative = true;       ///< the threshold is a share of the best number, else a difference
  std::int64_t cooldown = 0;  ///< validations after a reduction that are not counted
  double min_learning_rate = 0;
};

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

/// `learning_rate` after so many reductions. One that would change it by no more than 1e-8 is left out, as in torch.
double reduced(const PlateauSchedule& schedule, double learning_rate, std::int64_t reductions);

/// Numbers keep every bit.
nlohmann::json to_json(const PlateauState& state);
/// Throws std::invalid_argument if that is not what to_json() gave.
PlateauState plateau_state_from_json(const nlohmann::json& json);

}  // namespace stages
