#include "stages/train/schedule_options.h"

#include <string>

#include "runner/stage/config_reader.h"

namespace stages {
namespace {

using runner::ErrorCode;

double read_minimum(runner::ConfigReader& reader, double learning_rate) {
  double minimum = 0;
  reader.read("min_learning_rate", minimum);
  if (minimum > learning_rate) {
    reader.fail("min_learning_rate", ErrorCode::kOptionConflict,
                "min_learning_rate is above the optimizer's learning_rate", "lower it, or raise learning_rate");
  }
  return minimum;
}

void read_warmup(runner::ConfigReader& reader, auto& schedule) {
  reader.read("warmup_steps", schedule.warmup_steps);
  reader.read("warmup_fraction", schedule.warmup_fraction);
  if (schedule.warmup_steps && schedule.warmup_fraction) {
    reader.fail("warmup_steps", ErrorCode::kOptionConflict,
                "warmup_steps and warmup_fraction both say how long to warm up", "leave one of them out");
  } else if (!schedule.warmup_steps && !schedule.warmup_fraction) {
    reader.fail("warmup_steps", ErrorCode::kMissingKey,
                "neither warmup_steps nor warmup_fraction says how long to warm up",
                "add one of them, such as warmup_fraction: 0.1");
  }
}

Schedule read_constant(runner::ConfigReader& /*reader*/, double /*learning_rate*/) { return ConstantSchedule{}; }

Schedule read_cosine(runner::ConfigReader& reader, double learning_rate) {
  return CosineSchedule{read_minimum(reader, learning_rate)};
}

Schedule read_warmup_cosine(runner::ConfigReader& reader, double learning_rate) {
  WarmupCosineSchedule schedule;
  read_warmup(reader, schedule);
  reader.read("start_factor", schedule.start_factor);
  schedule.min_learning_rate = read_minimum(reader, learning_rate);
  return schedule;
}

Schedule read_warmup_linear(runner::ConfigReader& reader, double /*learning_rate*/) {
  WarmupLinearSchedule schedule;
  read_warmup(reader, schedule);
  return schedule;
}

Schedule read_cosine_restarts(runner::ConfigReader& reader, double learning_rate) {
  CosineRestartsSchedule schedule;
  reader.read("first_period", schedule.first_period);
  reader.read("period_factor", schedule.period_factor);
  schedule.min_learning_rate = read_minimum(reader, learning_rate);
  return schedule;
}

Schedule read_step(runner::ConfigReader& reader, double /*learning_rate*/) {
  StepSchedule schedule;
  reader.read("step_size", schedule.step_size);
  reader.read("gamma", schedule.gamma);
  return schedule;
}

Schedule read_multi_step(runner::ConfigReader& reader, double /*learning_rate*/) {
  MultiStepSchedule schedule;
  reader.read("milestones", schedule.milestones);
  reader.read("gamma", schedule.gamma);
  return schedule;
}

Schedule read_exponential(runner::ConfigReader& reader, double /*learning_rate*/) {
  ExponentialSchedule schedule;
  reader.read("gamma", schedule.gamma);
  return schedule;
}

Schedule read_plateau(runner::ConfigReader& reader, double learning_rate) {
  PlateauSchedule schedule;
  reader.read("factor", schedule.factor);
  reader.read("patience", schedule.patience);
  reader.read("threshold", schedule.threshold);
  schedule.relative = runner::choice<bool>(reader, "threshold_mode", {{"relative", true}, {"absolute", false}});
  reader.read("cooldown", schedule.cooldown);
  schedule.min_learning_rate = read_minimum(reader, learning_rate);
  return schedule;
}

Schedule read_one_cycle(runner::ConfigReader& reader, double /*learning_rate*/) {
  OneCycleSchedule schedule;
  reader.read("pct_start", schedule.pct_start);
  reader.read("div_factor", schedule.div_factor);
  reader.read("final_div_factor", schedule.final_div_factor);
  schedule.anneal_strategy =
      runner::choice<Anneal>(reader, "anneal_strategy", {{"cos", Anneal::kCosine}, {"linear", Anneal::kLinear}});
  reader.read("three_phase", schedule.three_phase);
  reader.read("cycle_momentum", schedule.cycle_momentum);
  reader.read("base_momentum", schedule.base_momentum);
  reader.read("max_momentum", schedule.max_momentum);
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

Schedule read_schedule(runner::ConfigReader& reader, double learning_rate) {
  using Read = Schedule (*)(runner::ConfigReader&, double);
  const auto read = runner::choice<Read>(reader, "kind",
                                         {{"constant", read_constant},
                                          {"cosine", read_cosine},
                                          {"cosine_restarts", read_cosine_restarts},
                                          {"warmup_cosine", read_warmup_cosine},
                                          {"warmup_linear", read_warmup_linear},
                                          {"step", read_step},
                                          {"multi_step", read_multi_step},
                                          {"exponential", read_exponential},
                                          {"one_cycle", read_one_cycle},
                                          {"plateau", read_plateau}});
  return read ? read(reader, learning_rate) : Schedule{};
}

}  // namespace stages
