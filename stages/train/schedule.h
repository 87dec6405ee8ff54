#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace stages {

// Learning rates as functions of the optimizer step or of the epoch. The optimizer's learning_rate
// is the peak of each schedule.

/// A constant learning rate.
struct ConstantSchedule {
  bool operator==(const ConstantSchedule&) const = default;
};

/// Half a cosine from the learning rate down to a minimum, like torch's CosineAnnealingLR over the
/// whole run.
struct CosineSchedule {
  double min_learning_rate = 0;
  bool operator==(const CosineSchedule&) const = default;
};

/// Descending half cosines, each restarting at the learning rate: torch's
/// CosineAnnealingWarmRestarts, stepped once per epoch (Loshchilov and Hutter, "SGDR", 2017).
struct CosineRestartsSchedule {
  std::int64_t first_period = 1;   ///< epochs
  std::int64_t period_factor = 1;  ///< length of each period relative to the previous one
  double min_learning_rate = 0;
  bool operator==(const CosineRestartsSchedule&) const = default;
};

/// Linear warmup, then half a cosine, or another number of cosine waves: torch's LinearLR followed
/// by CosineAnnealingLR. With start_factor 0, it is transformers' get_cosine_schedule_with_warmup.
/// Exactly one of warmup_steps and warmup_fraction is set.
struct WarmupCosineSchedule {
  std::optional<std::int64_t> warmup_steps;
  std::optional<double> warmup_fraction;  ///< share of all steps, rounded up
  double start_factor = 0;
  double min_learning_rate = 0;
  double num_cycles = 0.5;  ///< number of cosine waves after the warmup
  bool operator==(const WarmupCosineSchedule&) const = default;
};

/// Linear warmup from 0, then linear decay to 0: transformers' get_linear_schedule_with_warmup.
/// Exactly one of warmup_steps and warmup_fraction is set.
struct WarmupLinearSchedule {
  std::optional<std::int64_t> warmup_steps;
  std::optional<double> warmup_fraction;  ///< share of all steps, rounded up
  bool operator==(const WarmupLinearSchedule&) const = default;
};

/// Linear warmup from 0, then a constant rate: transformers' get_constant_schedule_with_warmup.
/// Exactly one of warmup_steps and warmup_fraction is set.
struct WarmupConstantSchedule {
  std::optional<std::int64_t> warmup_steps;
  std::optional<double> warmup_fraction;  ///< share of all steps, rounded up
  bool operator==(const WarmupConstantSchedule&) const = default;
};

/// Linear warmup from 0, then decay in proportion to the inverse square root of the step:
/// transformers' get_inverse_sqrt_schedule. Exactly one of warmup_steps and warmup_fraction is set.
struct WarmupInverseSqrtSchedule {
  std::optional<std::int64_t> warmup_steps;
  std::optional<double> warmup_fraction;  ///< share of all steps, rounded up
  std::optional<std::int64_t> timescale;  ///< steps; nullopt: as many as the warmup has, or 10000
                                          ///< without a warmup
  bool operator==(const WarmupInverseSqrtSchedule&) const = default;
};

/// Linear warmup from 0, then decay in proportion to a power of the remaining steps: transformers'
/// get_polynomial_decay_schedule_with_warmup. Exactly one of warmup_steps and warmup_fraction is
/// set.
struct WarmupPolynomialSchedule {
  std::optional<std::int64_t> warmup_steps;
  std::optional<double> warmup_fraction;  ///< share of all steps, rounded up
  double power = 1;
  double min_learning_rate = 0;
  bool operator==(const WarmupPolynomialSchedule&) const = default;
};

/// Linear warmup from 0, then half cosines down to 0, each restarting at the learning rate:
/// transformers' get_cosine_with_hard_restarts_schedule_with_warmup. Exactly one of warmup_steps
/// and warmup_fraction is set.
struct WarmupCosineRestartsSchedule {
  std::optional<std::int64_t> warmup_steps;
  std::optional<double> warmup_fraction;  ///< share of all steps, rounded up
  std::int64_t num_cycles = 1;
  bool operator==(const WarmupCosineRestartsSchedule&) const = default;
};

/// Descending half cosines in cycles that can change in length and height, after an optional
/// warmup: timm's CosineLRScheduler, stepped once per epoch.
struct CosineCyclesSchedule {
  std::int64_t first_period = 1;  ///< epochs
  double period_factor = 1;       ///< length of each cycle relative to the previous one
  double peak_factor = 1;         ///< highest rate of each cycle relative to the previous one
  std::int64_t cycle_limit = 1;   ///< number of cycles, after which the rate stays at its minimum
  double min_learning_rate = 0;
  std::int64_t warmup_epochs = 0;
  double warmup_learning_rate = 0;  ///< the rate in the first epoch of the warmup
  bool warmup_prefix = false;       ///< the first cycle begins after the warmup
  double k_decay = 1;               ///< exponent of the progress within a cycle
  bool operator==(const CosineCyclesSchedule&) const = default;
};

/// Multiplies the learning rate by gamma every step_size epochs: torch's StepLR.
struct StepSchedule {
  std::int64_t step_size = 1;  ///< epochs
  double gamma = 1;
  bool operator==(const StepSchedule&) const = default;
};

/// Multiplies the learning rate by gamma at each of these epochs: torch's MultiStepLR.
struct MultiStepSchedule {
  std::vector<std::int64_t> milestones;
  double gamma = 1;
  bool operator==(const MultiStepSchedule&) const = default;
};

/// Multiplies the learning rate by gamma after every epoch: torch's ExponentialLR.
struct ExponentialSchedule {
  double gamma = 1;
  bool operator==(const ExponentialSchedule&) const = default;
};

enum class Anneal { kCosine, kLinear };

/// Warmup, decay, and a further decay, with the momentum moving in the opposite direction: torch's
/// OneCycleLR (Smith and Topin, "Super-Convergence", 2018).
struct OneCycleSchedule {
  double pct_start = 0;
  double div_factor = 1;
  double final_div_factor = 1;
  Anneal anneal_strategy = Anneal::kCosine;
  bool three_phase = false;
  bool cycle_momentum = false;
  double base_momentum = 0, max_momentum = 0;
  std::int64_t legacy_steps_factor =
      1;  ///< length of the schedule as a multiple of the steps to be run
  bool operator==(const OneCycleSchedule&) const = default;
};

/// Lowers the learning rate when the monitored metric stops improving: torch's ReduceLROnPlateau,
/// stepped after every validation.
struct PlateauSchedule {
  double factor = 0.5;
  std::int64_t patience = 0;  ///< validations without improvement to tolerate
  double threshold = 0;       ///< how much better a number must be to count as an improvement
  bool relative = true;       ///< threshold is a fraction of the best number; false: a difference
  std::int64_t cooldown = 0;  ///< number of validations to ignore after a reduction
  double min_learning_rate = 0;
  bool operator==(const PlateauSchedule&) const = default;
};

/// Grows exponentially over `length` steps, for a learning rate range test.
struct RangeSchedule {
  double first_factor = 1, last_factor = 1;  ///< factors for the learning rate
  std::int64_t length = 2;
  bool operator==(const RangeSchedule&) const = default;
};

using Schedule =
    std::variant<ConstantSchedule, CosineSchedule, CosineRestartsSchedule, CosineCyclesSchedule,
                 WarmupConstantSchedule, WarmupCosineSchedule, WarmupCosineRestartsSchedule,
                 WarmupInverseSqrtSchedule, WarmupLinearSchedule, WarmupPolynomialSchedule,
                 StepSchedule, MultiStepSchedule, ExponentialSchedule, OneCycleSchedule,
                 PlateauSchedule, RangeSchedule>;
/// The learning rates for the epochs averaged by stochastic weight averaging: torch's SWALR,
/// stepped once per epoch. Starting with the first such epoch, the schedule is frozen, and the rate
/// moves from its last value to `factor` times the learning rate.
struct SwaSchedule {
  std::int64_t first_epoch = 0, first_step = 0;  ///< the first averaged epoch, 0-based
  double factor = 1;
  std::int64_t anneal_epochs = 0;  ///< number of epochs until that rate is reached
  Anneal anneal = Anneal::kCosine;
  bool operator==(const SwaSchedule&) const = default;
};

/// The optimizer's rates for one step.
struct Rates {
  double learning_rate = 0;
  std::optional<double> momentum;  ///< momentum of SGD or beta1 of Adam, if the schedule cycles it
};

/// A position in training; all counts start at 0.
struct SchedulePoint {
  std::int64_t step = 0, steps = 0;  ///< completed and total optimizer steps
  std::int64_t epoch = 0;
  std::int64_t reductions = 0;  ///< number of plateaus so far
};

/// Returns the rates of one step, for parameters with the peak rate `learning_rate`.
Rates rates_at(const Schedule& schedule, double learning_rate, const SchedulePoint& point);

/// Throws runner::StageError if the schedule does not fit a run of `steps` steps.
void check_length(const Schedule& schedule, std::int64_t steps);

/// Returns a message such as "the schedule never reaches the learning rate 0.001: the highest rate
/// in the 1 step of training is 4e-09"; empty if the highest rate is within a tenth of the learning
/// rate.
std::string unreached_rate(const Schedule& schedule, double learning_rate, std::int64_t steps);

/// The state of a PlateauSchedule.
struct PlateauState {
  std::optional<double> best;  ///< nullopt until a validation yields a finite number
  std::int64_t bad_validations = 0;
  std::int64_t cooldown_left = 0;
  std::int64_t reductions = 0;

  bool operator==(const PlateauState&) const = default;
};

/// Records a validation. A value that is not finite never counts as better.
void observe(PlateauState& state, const PlateauSchedule& schedule, double value,
             bool higher_is_better);

/// Returns JSON that preserves the numbers exactly.
nlohmann::json to_json(const PlateauState& state);
/// Parses the output of to_json(). Throws std::runtime_error for any other JSON.
PlateauState plateau_state_from_json(const nlohmann::json& json);

/// Runs the schedule of one training run, for all parameter groups.
///
///   const std::vector<Rates> rates = learning_rates.at(step, epoch);
///   learning_rates.observe(accuracy);  // after a validation
class LearningRates {
 public:
  /// `learning_rates` are the learning rates of the groups, `steps` is the total number of steps.
  /// If `higher_is_better`, a larger observed number is better. `swa`, if given, replaces the
  /// schedule starting with its first epoch.
  LearningRates(Schedule schedule, std::vector<double> learning_rates, std::int64_t steps,
                bool higher_is_better, std::optional<SwaSchedule> swa = {});

  /// Returns the rates of all groups; `step` and `epoch` are 0-based.
  std::vector<Rates> at(std::int64_t step, std::int64_t epoch) const;

  /// Records the monitored metric of the validation after `epochs` epochs, to detect plateaus. Does
  /// nothing once the schedule is frozen.
  void observe(double value, std::int64_t epochs = 0);

  /// The state needed to continue as if never interrupted. load_state() throws std::runtime_error
  /// for anything that state() did not return.
  nlohmann::json state() const;
  void load_state(const nlohmann::json& state);

 private:
  const Schedule schedule_;
  const std::vector<double> learning_rates_;
  const std::int64_t steps_;
  const bool higher_is_better_;
  const std::optional<SwaSchedule> swa_;
  PlateauState plateau_;
};

}  // namespace stages
