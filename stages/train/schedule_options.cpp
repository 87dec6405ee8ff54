#include "stages/train/schedule_options.h"

#include <string>

#include "runner/shared/stage/config_reader.h"

namespace stages {
namespace {

double read_minimum(runner::ConfigReader& reader) {
  double minimum = 0;
  reader.read("min_learning_rate", minimum);
  return minimum;
}

void read_warmup(runner::ConfigReader& reader, auto& schedule) {
  reader.read("warmup_steps", schedule.warmup_steps);
  reader.read("warmup_fraction", schedule.warmup_fraction);
}

Schedule read_constant(runner::ConfigReader& /*reader*/) { return ConstantSchedule{}; }

Schedule read_cosine(runner::ConfigReader& reader) { return CosineSchedule{read_minimum(reader)}; }

Schedule read_warmup_cosine(runner::ConfigReader& reader) {
  WarmupCosineSchedule schedule;
  read_warmup(reader, schedule);
  reader.read("start_factor", schedule.start_factor);
  schedule.min_learning_rate = read_minimum(reader);
  reader.read("num_cycles", schedule.num_cycles);
  return schedule;
}

Schedule read_warmup_linear(runner::ConfigReader& reader) {
  WarmupLinearSchedule schedule;
  read_warmup(reader, schedule);
  return schedule;
}

Schedule read_cosine_restarts(runner::ConfigReader& reader) {
  CosineRestartsSchedule schedule;
  reader.read("first_period", schedule.first_period);
  reader.read("period_factor", schedule.period_factor);
  schedule.min_learning_rate = read_minimum(reader);
  return schedule;
}

Schedule read_step(runner::ConfigReader& reader) {
  StepSchedule schedule;
  reader.read("step_size", schedule.step_size);
  reader.read("gamma", schedule.gamma);
  return schedule;
}

Schedule read_multi_step(runner::ConfigReader& reader) {
  MultiStepSchedule schedule;
  reader.read("milestones", schedule.milestones);
  reader.read("gamma", schedule.gamma);
  return schedule;
}

Schedule read_exponential(runner::ConfigReader& reader) {
  ExponentialSchedule schedule;
  reader.read("gamma", schedule.gamma);
  return schedule;
}

Schedule read_plateau(runner::ConfigReader& reader) {
  PlateauSchedule schedule;
  reader.read("factor", schedule.factor);
  reader.read("patience", schedule.patience);
  reader.read("threshold", schedule.threshold);
  schedule.relative = runner::choice<bool>(reader, "threshold_mode", {{"relative", true}, {"absolute", false}});
  reader.read("cooldown", schedule.cooldown);
  schedule.min_learning_rate = read_minimum(reader);
  return schedule;
}

Schedule read_one_cycle(runner::ConfigReader& reader) {
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
  reader.read("legacy_steps_factor", schedule.legacy_steps_factor);
  return schedule;
}

}  // namespace

Schedule read_schedule(runner::ConfigReader& reader) {
  using Read = Schedule (*)(runner::ConfigReader&);
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
  return read ? read(reader) : Schedule{};
}

}  // namespace stages
