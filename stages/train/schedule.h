#pragma once

#include <cstdint>
#include <optional>
#include <variant>

namespace runner {
class ConfigReader;
}

namespace stages {

// Learning rates as functions of the optimizer's step. The optimizer's learning_rate is the highest rate of each.

/// The same rate throughout.
struct ConstantSchedule {};

/// Half a cosine from the learning rate down to a minimum, as torch's CosineAnnealingLR over the whole run.
struct CosineSchedule {
  double min_learning_rate = 0;
};

/// A straight rise, then half a cosine: torch's LinearLR followed by CosineAnnealingLR. With start_factor 0 it is
/// get_cosine_schedule_with_warmup of transformers. Exactly one of steps and fraction is set.
struct WarmupCosineSchedule {
  std::optional<std::int64_t> warmup_steps;
  std::optional<double> warmup_fraction;  ///< of all steps, rounded up
  double start_factor = 0;
  double min_learning_rate = 0;
};

enum class Anneal { kCosine, kLinear };

/// Up, down, and further down, with the momentum going the other way: torch's OneCycleLR (Smith and Topin,
/// "Super-Convergence", 2018).
struct OneCycleSchedule {
  double pct_start = 0;
  double div_factor = 1;
  double final_div_factor = 1;
  Anneal anneal_strategy = Anneal::kCosine;
  bool three_phase = false;
  bool cycle_momentum = false;
  double base_momentum = 0, max_momentum = 0;
};

using Schedule = std::variant<ConstantSchedule, CosineSchedule, WarmupCosineSchedule, OneCycleSchedule>;

/// What the optimizer is to use at one step.
struct Rates {
  double learning_rate = 0;
  std::optional<double> momentum;  ///< momentum of SGD or beta1 of Adam, where the schedule cycles it
};

/// The rates of step `step`, counted from 0, of a run of `steps` steps.
Rates rates_at(const Schedule& schedule, double learning_rate, std::int64_t step, std::int64_t steps);

/// Throws runner::StageError if the schedule does not fit a run of `steps` steps.
void check_length(const Schedule& schedule, std::int64_t steps);

/// Reads a mapping of schemas/train/schedule/; contradictions become errors of `reader`.
Schedule read_schedule(runner::ConfigReader& reader, double learning_rate);

}  // namespace stages
