#include "stages/train/scheduler.h"

#include <nlohmann/json.hpp>

namespace stages {

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
