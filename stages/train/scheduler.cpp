#include "stages/train/scheduler.h"

#include <cmath>
#include <stdexcept>
#include <string>

#include <nlohmann/json.hpp>

namespace stages {
namespace {

bool is_better(const PlateauState& state, const PlateauSchedule& schedule, double value, bool higher_is_better) {
  if (!std::isfinite(value)) return false;
  if (!state.best) return true;
  const double best = *state.best, sign = higher_is_better ? 1 : -1;
  const double bar = schedule.relative ? best * (1 + sign * schedule.threshold) : best + sign * schedule.threshold;
  return higher_is_better ? value > bar : value < bar;
}

}  // namespace

void observe(PlateauState& state, const PlateauSchedule& schedule, double value, bool higher_is_better) {
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
  const auto member = [&](const char* name) -> const nlohmann::json& {
    if (json.is_object() && json.contains(name)) return json[name];
    throw std::invalid_argument("the schedule's state has no '" + std::string(name) + "'");
  };
  const auto count = [&](const char* name) {
    const nlohmann::json& value = member(name);
    if (value.is_number_integer() && value >= 0) return value.get<std::int64_t>();
    throw std::invalid_argument("the schedule's state has a '" + std::string(name) + "' that is no count");
  };
  PlateauState state;
  const nlohmann::json& best = member("best");
  if (best.is_number()) state.best = best.get<double>();
  else if (!best.is_null()) throw std::invalid_argument("the schedule's state has a 'best' that is no number");
  state.bad_validations = count("bad_validations");
  state.cooldown_left = count("cooldown_left");
  state.reductions = count("reductions");
  return state;
}

Scheduler::Scheduler(Schedule schedule, std::vector<double> learning_rates, std::int64_t steps, bool higher_is_better)
    : schedule_(std::move(schedule)),
      learning_rates_(std::move(learning_rates)),
      steps_(steps),
      higher_is_better_(higher_is_better) {}

std::vector<Rates> Scheduler::at(std::int64_t step, std::int64_t epoch) const {
  const SchedulePoint point{.step = step, .steps = steps_, .epoch = epoch, .reductions = plateau_.reductions};
  std::vector<Rates> rates;
  for (const double learning_rate : learning_rates_) rates.push_back(rates_at(schedule_, learning_rate, point));
  return rates;
}

void Scheduler::observe(double value) {
  const auto* plateau = std::get_if<PlateauSchedule>(&schedule_);
  if (plateau) stages::observe(plateau_, *plateau, value, higher_is_better_);
}

nlohmann::json Scheduler::state() const { return to_json(plateau_); }

void Scheduler::load_state(const nlohmann::json& state) { plateau_ = plateau_state_from_json(state); }

}  // namespace stages
