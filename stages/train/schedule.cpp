#include "stages/train/schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string>

#include "runner/config_reader.h"
#include "runner/stage.h"

namespace stages {
namespace {

using runner::ErrorCode;

double cosine(double from, double to, double progress) {
  return to + (from - to) / 2 * (1 + std::cos(std::numbers::pi * progress));
}

std::int64_t warmup_length(const WarmupCosineSchedule& schedule, std::int64_t steps) {
  if (schedule.warmup_steps) return *schedule.warmup_steps;
  return static_cast<std::int64_t>(std::ceil(*schedule.warmup_fraction * static_cast<double>(steps)));
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
      schedule.three_phase ? Phase{2 * rise - 2, peak, initial, low, high} : Phase{steps - 1, peak, lowest, low, high},
      Phase{steps - 1, initial, lowest, high, high},
  };
  const std::size_t last = schedule.three_phase ? 2 : 1;
  std::size_t current = 0;
  double begin = 0;
  while (current < last && step > phases[current].end) begin = phases[current++].end;
  const Phase& phase = phases[current];
  const double length = phase.end - begin;
  const double progress = length == 0 ? 1 : (step - begin) / length;  // a rise of one step starts at the top
  const auto between = [&](double from, double to) {
    return schedule.anneal_strategy == Anneal::kLinear ? from + (to - from) * progress : cosine(from, to, progress);
  };
  Rates rates{.learning_rate = between(phase.from, phase.to), .momentum = {}};
  if (schedule.cycle_momentum) rates.momentum = between(phase.momentum_from, phase.momentum_to);
  return rates;
}

struct At {
  double learning_rate;
  std::int64_t step, steps;

  Rates operator()(const ConstantSchedule&) const { return {learning_rate, {}}; }
  Rates operator()(const CosineSchedule& schedule) const {
    return {cosine(learning_rate, schedule.min_learning_rate, static_cast<double>(step) / static_cast<double>(steps)),
            {}};
  }
  Rates operator()(const WarmupCosineSchedule& schedule) const {
    const std::int64_t warmup = warmup_length(schedule, steps);
    if (step < warmup) {
      const double risen = static_cast<double>(step) / static_cast<double>(warmup);
      return {learning_rate * (schedule.start_factor + (1 - schedule.start_factor) * risen), {}};
    }
    const auto length = static_cast<double>(std::max<std::int64_t>(steps - warmup, 1));
    return {cosine(learning_rate, schedule.min_learning_rate, static_cast<double>(step - warmup) / length), {}};
  }
  Rates operator()(const OneCycleSchedule& schedule) const {
    return one_cycle(schedule, learning_rate, static_cast<double>(step), static_cast<double>(steps));
  }
};

double read_minimum(runner::ConfigReader& reader, double learning_rate) {
  double minimum = 0;
  reader.read("min_learning_rate", minimum);
  if (minimum > learning_rate) {
    reader.fail("min_learning_rate", ErrorCode::kOptionConflict,
                "min_learning_rate is above the optimizer's learning_rate", "lower it, or raise learning_rate");
  }
  return minimum;
}

WarmupCosineSchedule read_warmup_cosine(runner::ConfigReader& reader, double learning_rate) {
  WarmupCosineSchedule schedule;
  reader.read("warmup_steps", schedule.warmup_steps);
  reader.read("warmup_fraction", schedule.warmup_fraction);
  reader.read("start_factor", schedule.start_factor);
  schedule.min_learning_rate = read_minimum(reader, learning_rate);
  if (schedule.warmup_steps && schedule.warmup_fraction) {
    reader.fail("warmup_steps", ErrorCode::kOptionConflict,
                "warmup_steps and warmup_fraction both say how long to warm up", "leave one of them out");
  } else if (!schedule.warmup_steps && !schedule.warmup_fraction) {
    reader.fail("warmup_steps", ErrorCode::kMissingKey,
                "neither warmup_steps nor warmup_fraction says how long to warm up",
                "add one of them, such as warmup_fraction: 0.1");
  }
  return schedule;
}

OneCycleSchedule read_one_cycle(runner::ConfigReader& reader) {
  OneCycleSchedule schedule;
  std::string anneal;
  reader.read("pct_start", schedule.pct_start);
  reader.read("div_factor", schedule.div_factor);
  reader.read("final_div_factor", schedule.final_div_factor);
  reader.read("anneal_strategy", anneal);
  reader.read("three_phase", schedule.three_phase);
  reader.read("cycle_momentum", schedule.cycle_momentum);
  reader.read("base_momentum", schedule.base_momentum);
  reader.read("max_momentum", schedule.max_momentum);
  schedule.anneal_strategy = anneal == "linear" ? Anneal::kLinear : Anneal::kCosine;
  if (schedule.three_phase && schedule.pct_start > 0.5) {
    reader.fail("pct_start", ErrorCode::kOptionConflict, "pct_start is above 0.5, and three_phase needs it twice",
                "lower pct_start, or set three_phase: false");
  }
  if (schedule.base_momentum > schedule.max_momentum) {
    reader.fail("base_momentum", ErrorCode::kOptionConflict, "base_momentum is above max_momentum", "exchange them");
  }
  return schedule;
}

}  // namespace

Rates rates_at(const Schedule& schedule, double learning_rate, std::int64_t step, std::int64_t steps) {
  return std::visit(At{learning_rate, step, steps}, schedule);
}

void check_length(const Schedule& schedule, std::int64_t steps) {
  const auto* warmup = std::get_if<WarmupCosineSchedule>(&schedule);
  if (!warmup || warmup_length(*warmup, steps) < steps || steps == 1) return;
  throw runner::StageError(ErrorCode::kOptionConflict, warmup->warmup_steps ? "/schedule/warmup_steps" : "/schedule",
                           "the warm-up takes " + std::to_string(warmup_length(*warmup, steps)) +
                               " steps and the whole training only " + std::to_string(steps),
                           "lower warmup_steps, or train for more epochs");
}

Schedule read_schedule(runner::ConfigReader& reader, double learning_rate) {
  std::string kind;
  reader.read("kind", kind);
  if (kind == "cosine") return CosineSchedule{read_minimum(reader, learning_rate)};
  if (kind == "warmup_cosine") return read_warmup_cosine(reader, learning_rate);
  if (kind == "one_cycle") return read_one_cycle(reader);
  return ConstantSchedule{};
}

}  // namespace stages
