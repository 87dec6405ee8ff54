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

WarmupCosineSchedule read_warmup_cosine(runner::ConfigReader& reader, double learning_rate) {
  WarmupCosineSchedule schedule;
  read_warmup(reader, schedule);
  reader.read("start_factor", schedule.start_factor);
  schedule.min_learning_rate = read_minimum(reader, learning_rate);
  return schedule;
}

WarmupLinearSchedule read_warmup_linear(runner::ConfigReader& reader) {
  WarmupLinearSchedule schedule;
  read_warmup(reader, schedule);
  return schedule;
}

CosineRestartsSchedule read_cosine_restarts(runner::ConfigReader& reader, double learning_rate) {
  CosineRestartsSchedule schedule;
  reader.read("first_period", schedule.first_period);
  reader.read("period_factor", schedule.period_factor);
  schedule.min_learning_rate = read_minimum(reader, learning_rate);
  return schedule;
}

StepSchedule read_step(runner::ConfigReader& reader) {
  StepSchedule schedule;
  reader.read("step_size", schedule.step_size);
  reader.read("gamma", schedule.gamma);
  return schedule;
}

MultiStepSchedule read_multi_step(runner::ConfigReader& reader) {
  MultiStepSchedule schedule;
  reader.read("milestones", schedule.milestones);
  reader.read("gamma", schedule.gamma);
  return schedule;
}

ExponentialSchedule read_exponential(runner::ConfigReader& reader) {
  ExponentialSchedule schedule;
  reader.read("gamma", schedule.gamma);
  return schedule;
}

PlateauSchedule read_plateau(runner::ConfigReader& reader, double learning_rate) {
  PlateauSchedule schedule;
  std::string mode;
  reader.read("factor", schedule.factor);
  reader.read("patience", schedule.patience);
  reader.read("threshold", schedule.threshold);
  reader.read("threshold_mode", mode);
  reader.read("cooldown", schedule.cooldown);
  schedule.relative = mode != "absolute";
  schedule.min_learning_rate = read_minimum(reader, learning_rate);
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

Schedule read_schedule(runner::ConfigReader& reader, double learning_rate) {
  std::string kind;
  reader.read("kind", kind);
  if (kind == "cosine") return CosineSchedule{read_minimum(reader, learning_rate)};
  if (kind == "cosine_restarts") return read_cosine_restarts(reader, learning_rate);
  if (kind == "warmup_cosine") return read_warmup_cosine(reader, learning_rate);
  if (kind == "warmup_linear") return read_warmup_linear(reader);
  if (kind == "step") return read_step(reader);
  if (kind == "multi_step") return read_multi_step(reader);
  if (kind == "exponential") return read_exponential(reader);
  if (kind == "one_cycle") return read_one_cycle(reader);
  if (kind == "plateau") return read_plateau(reader, learning_rate);
  return ConstantSchedule{};
}

}  // namespace stages
