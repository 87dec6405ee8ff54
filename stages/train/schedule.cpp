#include "stages/train/schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <sstream>
#include <string>

#include <nlohmann/json.hpp>

#include "runner/shared/stage/stage.h"
#include "runner/shared/value/json_fields.h"

namespace stages {
namespace {

double cosine(double from, double to, double progress) {
  return to + (from - to) / 2 * (1 + std::cos(std::numbers::pi * progress));
}

constexpr double kSmallestChange = 1e-8;

/// Returns the learning rate after `reductions` reductions. A reduction of at most 1e-8 is skipped,
/// as in torch.
double reduced(const PlateauSchedule& schedule, double learning_rate, std::int64_t reductions) {
  for (; reductions > 0; --reductions) {
    const double lower = std::max(learning_rate * schedule.factor, schedule.min_learning_rate);
    if (learning_rate - lower <= kSmallestChange) break;
    learning_rate = lower;
  }
  return learning_rate;
}

double share(std::int64_t part, std::int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(whole);
}

double power(double base, std::int64_t exponent) {
  return std::pow(base, static_cast<double>(exponent));
}

/// Schedules with a warmup in steps.
template <typename Schedule>
concept HasWarmup = requires(const Schedule& schedule) {
  schedule.warmup_fraction;
};

/// Returns the number of warmup steps in a schedule that has a warmup.
std::int64_t warmup_length(const auto& schedule, std::int64_t steps) {
  if (schedule.warmup_steps) return *schedule.warmup_steps;
  return static_cast<std::int64_t>(
      std::ceil(*schedule.warmup_fraction * static_cast<double>(steps)));
}

struct Phase {
  double end;  // the step at which `to` is reached
  double from, to;
  double momentum_from, momentum_to;
};

Rates one_cycle(const OneCycleSchedule& schedule, double peak, double step, double steps) {
  const double initial = peak / schedule.div_factor;
  const double lowest = initial / schedule.final_div_factor;
  const double rise = schedule.pct_start * steps;
  const double low = schedule.base_momentum, high = schedule.max_momentum;
  const std::array<Phase, 3> phases = {
      Phase{rise - 1, initial, peak, high, low},
      schedule.three_phase ? Phase{2 * rise - 2, peak, initial, low, high}
                           : Phase{steps - 1, peak, lowest, low, high},
      Phase{steps - 1, initial, lowest, high, high},
  };
  const std::size_t last = schedule.three_phase ? 2 : 1;
  std::size_t current = 0;
  double begin = 0;
  while (current < last && step > phases[current].end) begin = phases[current++].end;
  const Phase& phase = phases[current];
  const double length = phase.end - begin;
  const double progress =
      length == 0 ? 1 : (step - begin) / length;  // a phase of length 0 starts at its end value
  const auto between = [&](double from, double to) {
    return schedule.anneal_strategy == Anneal::kLinear ? from + (to - from) * progress
                                                       : cosine(from, to, progress);
  };
  Rates rates{.learning_rate = between(phase.from, phase.to), .momentum = {}};
  if (schedule.cycle_momentum) rates.momentum = between(phase.momentum_from, phase.momentum_to);
  return rates;
}

/// Returns the position of an epoch within its period of a cosine with restarts, in [0, 1).
double period_progress(const CosineRestartsSchedule& schedule, std::int64_t epoch) {
  std::int64_t period = schedule.first_period;
  if (schedule.period_factor == 1) epoch %= period;
  for (; epoch >= period; period *= schedule.period_factor) epoch -= period;
  return static_cast<double>(epoch) / static_cast<double>(period);
}

Rates cosine_cycles(const CosineCyclesSchedule& schedule, double peak, std::int64_t epoch) {
  const double lowest = schedule.min_learning_rate, start = schedule.warmup_learning_rate;
  if (epoch < schedule.warmup_epochs)
    return {start + (peak - start) * share(epoch, schedule.warmup_epochs), {}};
  double left =
      static_cast<double>(schedule.warmup_prefix ? epoch - schedule.warmup_epochs : epoch);
  double length = static_cast<double>(schedule.first_period);
  std::int64_t cycle = 0;
  for (; cycle < schedule.cycle_limit && left >= length; ++cycle) {
    left -= length;
    length *= schedule.period_factor;
  }
  if (cycle == schedule.cycle_limit) return {lowest, {}};
  const double progress = std::pow(left, schedule.k_decay) / std::pow(length, schedule.k_decay);
  return {cosine(peak * power(schedule.peak_factor, cycle), lowest, progress), {}};
}

struct At {
  double learning_rate;
  SchedulePoint point;

  Rates operator()(const ConstantSchedule&) const { return {learning_rate, {}}; }
  Rates operator()(const CosineSchedule& schedule) const {
    return {cosine(learning_rate, schedule.min_learning_rate, share(point.step, point.steps)), {}};
  }
  Rates operator()(const CosineRestartsSchedule& schedule) const {
    return {
        cosine(learning_rate, schedule.min_learning_rate, period_progress(schedule, point.epoch)),
        {}};
  }
  Rates operator()(const WarmupCosineSchedule& schedule) const {
    const std::int64_t warmup = warmup_length(schedule, point.steps);
    if (point.step < warmup) {
      const double risen = share(point.step, warmup);
      return {learning_rate * (schedule.start_factor + (1 - schedule.start_factor) * risen), {}};
    }
    const double half_waves = 2 * schedule.num_cycles;
    return {cosine(learning_rate, schedule.min_learning_rate, half_waves * fallen(warmup)), {}};
  }
  Rates operator()(const WarmupLinearSchedule& schedule) const {
    const std::int64_t warmup = warmup_length(schedule, point.steps);
    if (point.step < warmup) return {learning_rate * share(point.step, warmup), {}};
    return {learning_rate * std::max(0.0, 1 - fallen(warmup)), {}};
  }
  Rates operator()(const CosineCyclesSchedule& schedule) const {
    return cosine_cycles(schedule, learning_rate, point.epoch);
  }
  Rates operator()(const WarmupConstantSchedule& schedule) const {
    return {learning_rate * std::min(1.0, risen(warmup_length(schedule, point.steps))), {}};
  }
  Rates operator()(const WarmupCosineRestartsSchedule& schedule) const {
    const std::int64_t warmup = warmup_length(schedule, point.steps);
    if (point.step < warmup) return {learning_rate * risen(warmup), {}};
    const double progress = fallen(warmup);
    if (progress >= 1) return {0, {}};
    const double cycles = static_cast<double>(schedule.num_cycles) * progress;
    return {cosine(learning_rate, 0, cycles - std::floor(cycles)), {}};
  }
  Rates operator()(const WarmupInverseSqrtSchedule& schedule) const {
    constexpr std::int64_t kLong = 10000;  // steps, as in transformers
    const std::int64_t warmup = warmup_length(schedule, point.steps);
    if (point.step < warmup) return {learning_rate * risen(warmup), {}};
    const std::int64_t scale = schedule.timescale.value_or(warmup > 0 ? warmup : kLong);
    return {learning_rate / std::sqrt(share(point.step - warmup + scale, scale)), {}};
  }
  Rates operator()(const WarmupPolynomialSchedule& schedule) const {
    const std::int64_t warmup = warmup_length(schedule, point.steps);
    if (point.step < warmup) return {learning_rate * risen(warmup), {}};
    const double left = std::max(0.0, 1 - fallen(warmup)), lowest = schedule.min_learning_rate;
    return {lowest + (learning_rate - lowest) * std::pow(left, schedule.power), {}};
  }
  Rates operator()(const StepSchedule& schedule) const {
    return {learning_rate * power(schedule.gamma, point.epoch / schedule.step_size), {}};
  }
  Rates operator()(const MultiStepSchedule& schedule) const {
    const auto passed = [&](std::int64_t milestone) { return milestone <= point.epoch; };
    return {
        learning_rate * power(schedule.gamma, std::ranges::count_if(schedule.milestones, passed)),
        {}};
  }
  Rates operator()(const ExponentialSchedule& schedule) const {
    return {learning_rate * power(schedule.gamma, point.epoch), {}};
  }
  Rates operator()(const OneCycleSchedule& schedule) const {
    return one_cycle(schedule, learning_rate, static_cast<double>(point.step),
                     static_cast<double>(point.steps * schedule.legacy_steps_factor));
  }
  Rates operator()(const RangeSchedule& schedule) const {
    const double growth = schedule.last_factor / schedule.first_factor;
    return {learning_rate * schedule.first_factor *
                std::pow(growth, share(point.step, schedule.length - 1)),
            {}};
  }
  Rates operator()(const PlateauSchedule& schedule) const {
    return {reduced(schedule, learning_rate, point.reductions), {}};
  }

  /// Returns the completed share of a warmup from 0; 1 if there is none.
  double risen(std::int64_t warmup) const { return warmup == 0 ? 1 : share(point.step, warmup); }
  /// Returns the completed share of the steps after the warmup.
  double fallen(std::int64_t warmup) const {
    return share(point.step - warmup, std::max<std::int64_t>(point.steps - warmup, 1));
  }
};

bool is_better(const PlateauState& state, const PlateauSchedule& schedule, double value,
               bool higher_is_better) {
  if (!std::isfinite(value)) return false;
  if (!state.best) return true;
  const double best = *state.best, sign = higher_is_better ? 1 : -1;
  const double bar =
      schedule.relative ? best * (1 + sign * schedule.threshold) : best + sign * schedule.threshold;
  return higher_is_better ? value > bar : value < bar;
}

}  // namespace

Rates rates_at(const Schedule& schedule, double learning_rate, const SchedulePoint& point) {
  return std::visit(At{learning_rate, point}, schedule);
}

void check_length(const Schedule& schedule, std::int64_t steps) {
  const auto check = [&]<typename One>(const One& one) {
    if constexpr (HasWarmup<One>) {
      const std::int64_t warmup = warmup_length(one, steps);
      if (warmup < steps || steps == 1) return;
      throw runner::StageError(runner::ErrorCode::kOptionConflict,
                               "the warm-up has " + std::to_string(warmup) +
                                   " steps, but training has only " + std::to_string(steps))
          .at(one.warmup_steps ? "/schedule/warmup_steps" : "/schedule")
          .with_help("lower warmup_steps, or train for more epochs");
    }
  };
  std::visit(check, schedule);
}

std::string unreached_rate(const Schedule& schedule, double learning_rate, std::int64_t steps) {
  const bool has_warmup =
      std::visit([]<typename One>(const One&) { return HasWarmup<One>; }, schedule);
  if (!has_warmup && !std::holds_alternative<OneCycleSchedule>(schedule)) return "";
  constexpr double kEnough = 0.9;
  double highest = 0;
  for (std::int64_t step = 0; step < steps; ++step) {
    highest = std::max(
        highest, rates_at(schedule, learning_rate, {.step = step, .steps = steps}).learning_rate);
    if (highest >= kEnough * learning_rate) return "";
  }
  std::ostringstream text;
  text.precision(3);
  text << "the schedule never reaches the learning rate " << learning_rate
       << ": the highest rate in the " << steps << (steps == 1 ? " step" : " steps")
       << " of training is " << highest;
  return text.str();
}

void observe(PlateauState& state, const PlateauSchedule& schedule, double value,
             bool higher_is_better) {
  if (is_better(state, schedule, value, higher_is_better)) {
    state.best = value;
    state.bad_validations = 0;
  } else {
    ++state.bad_validations;
  }
  if (state.cooldown_left > 0) {
    --state.cooldown_left;
    state.bad_validations = 0;
  }
  if (state.bad_validations <= schedule.patience) return;
  ++state.reductions;
  state.cooldown_left = schedule.cooldown;
  state.bad_validations = 0;
}

nlohmann::json to_json(const PlateauState& state) {
  return {{"best", state.best ? nlohmann::json(*state.best) : nlohmann::json()},
          {"bad_validations", state.bad_validations},
          {"cooldown_left", state.cooldown_left},
          {"reductions", state.reductions}};
}

PlateauState plateau_state_from_json(const nlohmann::json& json) {
  const runner::JsonFields fields(json, "the schedule's state");
  PlateauState state;
  if (!fields.at("best").is_null()) state.best = fields.number("best");
  state.bad_validations = fields.count("bad_validations");
  state.cooldown_left = fields.count("cooldown_left");
  state.reductions = fields.count("reductions");
  return state;
}

LearningRates::LearningRates(Schedule schedule, std::vector<double> learning_rates,
                             std::int64_t steps, bool higher_is_better,
                             std::optional<SwaSchedule> swa)
    : schedule_(std::move(schedule)),
      learning_rates_(std::move(learning_rates)),
      steps_(steps),
      higher_is_better_(higher_is_better),
      swa_(swa) {}

namespace {

/// Returns how far the rate has moved toward SWA's rate in `epoch`, from 0 to 1.
double annealed(const SwaSchedule& swa, std::int64_t epoch) {
  if (swa.anneal_epochs == 0) return 1;
  const double done = std::min(1.0, share(epoch - swa.first_epoch, swa.anneal_epochs));
  return swa.anneal == Anneal::kLinear ? done : (1 - std::cos(std::numbers::pi * done)) / 2;
}

}  // namespace

std::vector<Rates> LearningRates::at(std::int64_t step, std::int64_t epoch) const {
  SchedulePoint point{
      .step = step, .steps = steps_, .epoch = epoch, .reductions = plateau_.reductions};
  const bool averages = swa_ && epoch >= swa_->first_epoch;
  if (averages) {
    point.step = swa_->first_step;
    point.epoch = swa_->first_epoch;
  }
  std::vector<Rates> rates;
  for (const double learning_rate : learning_rates_) {
    Rates& now = rates.emplace_back(rates_at(schedule_, learning_rate, point));
    if (!averages) continue;
    const double done = annealed(*swa_, epoch);
    now.learning_rate = swa_->factor * learning_rate * done + now.learning_rate * (1 - done);
  }
  return rates;
}

void LearningRates::observe(double value, std::int64_t epochs) {
  if (swa_ && epochs > swa_->first_epoch) return;
  const auto* plateau = std::get_if<PlateauSchedule>(&schedule_);
  if (plateau) stages::observe(plateau_, *plateau, value, higher_is_better_);
}

nlohmann::json LearningRates::state() const { return to_json(plateau_); }

void LearningRates::load_state(const nlohmann::json& state) {
  plateau_ = plateau_state_from_json(state);
}

}  // namespace stages
