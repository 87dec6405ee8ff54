#include "stages/train/trainer_options.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "runner/shared/error/stage_error.h"
#include "runner/shared/stage/config_reader.h"

namespace stages {

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

SaveOptions read_save_options(runner::ConfigReader& reader) {
  SaveOptions options;
  runner::ConfigReader& every = reader.section("every");
  every.read("steps", options.every.steps);
  every.read("minutes", options.every.minutes);
  every.read("epochs", options.every.epochs);
  reader.read("keep_last", options.keep_last);
  reader.read("keep_best", options.keep_best);
  return options;
}

namespace {

/// Reads the option `monitor`. A lower loss is better; a higher score is better.
bool read_higher_is_better(runner::ConfigReader& reader, std::span<const std::string_view> scores) {
  std::vector<std::pair<std::string_view, bool>> monitors = {{"loss", false}};
  for (const std::string_view score : scores) monitors.emplace_back(score, true);
  return runner::choice<bool>(reader, "monitor", monitors);
}

/// Reads the limits for gradients. The schema ensures that only one is set.
void read_gradient_clip(runner::ConfigReader& reader, TrainerOptions& options) {
  reader.read("gradient_clip_norm", options.gradient_clip_norm);
  reader.read("gradient_clip_value", options.gradient_clip_value);
  options.adaptive_gradient_clip = read_adaptive_clip(reader);
}

}  // namespace

TrainerOptions read_trainer_options(runner::ConfigReader& reader,
                                    std::span<const std::string_view> scores,
                                    std::string_view batch_option,
                                    const std::vector<NetworkPart>& parts,
                                    std::optional<bool> higher_is_better) {
  TrainerOptions options;
  reader.read("epochs", options.epochs);
  options.batch_option = batch_option;
  reader.read(batch_option, options.batch_size);
  read_gradient_clip(reader, options);
  options.average = read_weight_average(reader);
  options.swa = read_swa(reader, options.epochs);
  if (options.swa) options.average = WeightAverageOptions{.is_equal = true};
  std::optional<std::int64_t> average_best;
  reader.read("average_best", average_best);
  options.average_best = average_best.value_or(0);
  reader.read("validate_every", options.validate_every);
  reader.read("patience", options.patience);
  reader.read("minimum_improvement", options.minimum_improvement);
  reader.read("monitor", options.monitor);
  options.higher_is_better =
      higher_is_better ? *higher_is_better : read_higher_is_better(reader, scores);
  options.keep = runner::choice<Keep>(
      reader, "keep", {{"auto", Keep::kAuto}, {"best", Keep::kBest}, {"last", Keep::kLast}});
  reader.read("log_every", options.log_every);
  reader.read("log_gradients_every", options.log_gradients_every);
  options.checkpoint = read_save_options(reader.section("checkpoint"));
  options.checkpoint.keep_best = std::max(options.checkpoint.keep_best, options.average_best);
  options.optimizer = read_optimizer(reader.section("optimizer"));
  options.schedule = read_schedule(reader.section("schedule"));
  options.parameter_groups = read_parameter_groups(reader, parts);
  if (reader.raw("layer_decay"))  // not every kind has this option
    reader.read("layer_decay", options.layer_decay);
  std::ranges::copy_if(parts, std::back_inserter(options.towers), &NetworkPart::is_tower);
  return options;
}

TrainerOptions options_of_dry_run(TrainerOptions options) {
  options.log_gradients_every = std::min<std::int64_t>(options.log_gradients_every, 1);
  return options;
}

std::vector<std::string> notes_of(const TrainerOptions& options) {
  if (!options.patience || options.keep != Keep::kLast) return {};
  return {"keep: last, with patience " + std::to_string(*options.patience) +
          ": if training stops early, the last weights are kept, which are that many validations "
          "past the best; set keep: best to keep the best weights"};
}

void check_without_validation(const TrainerOptions& options) {
  const auto refuse = [](const char* option, const std::string& what, const std::string& instead) {
    throw runner::StageError(runner::ErrorCode::kOptionConflict, what + ", but there is none")
        .at(option)
        .with_help(
            "add a validation part to the data: a folder 'val' next to its folder 'train', or a "
            "fraction, such as data.split={train: 0.7, validation: 0.1, test: 0.2}; or set " +
            instead);
  };
  if (options.patience) refuse("/patience", "patience needs validation data", "patience: null");
  if (std::holds_alternative<PlateauSchedule>(options.schedule))
    refuse("/schedule", "the schedule plateau needs validation data", "another schedule");
  if (options.average_best > 0)
    refuse("/average_best", "average_best needs validation data", "average_best: null");
  if (options.keep == Keep::kBest)
    refuse("/keep", "keep: best needs validation data", "keep: last");
}

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

Schedule read_warmup_constant(runner::ConfigReader& reader) {
  WarmupConstantSchedule schedule;
  read_warmup(reader, schedule);
  return schedule;
}

Schedule read_warmup_inverse_sqrt(runner::ConfigReader& reader) {
  WarmupInverseSqrtSchedule schedule;
  read_warmup(reader, schedule);
  reader.read("timescale", schedule.timescale);
  return schedule;
}

Schedule read_warmup_polynomial(runner::ConfigReader& reader) {
  WarmupPolynomialSchedule schedule;
  read_warmup(reader, schedule);
  reader.read("power", schedule.power);
  schedule.min_learning_rate = read_minimum(reader);
  return schedule;
}

Schedule read_warmup_cosine_restarts(runner::ConfigReader& reader) {
  WarmupCosineRestartsSchedule schedule;
  read_warmup(reader, schedule);
  reader.read("num_cycles", schedule.num_cycles);
  return schedule;
}

Schedule read_cosine_cycles(runner::ConfigReader& reader) {
  CosineCyclesSchedule schedule;
  reader.read("first_period", schedule.first_period);
  reader.read("period_factor", schedule.period_factor);
  reader.read("peak_factor", schedule.peak_factor);
  reader.read("cycle_limit", schedule.cycle_limit);
  schedule.min_learning_rate = read_minimum(reader);
  reader.read("warmup_epochs", schedule.warmup_epochs);
  reader.read("warmup_learning_rate", schedule.warmup_learning_rate);
  reader.read("warmup_prefix", schedule.warmup_prefix);
  reader.read("k_decay", schedule.k_decay);
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
  schedule.relative =
      runner::choice<bool>(reader, "threshold_mode", {{"relative", true}, {"absolute", false}});
  reader.read("cooldown", schedule.cooldown);
  schedule.min_learning_rate = read_minimum(reader);
  return schedule;
}

Schedule read_one_cycle(runner::ConfigReader& reader) {
  OneCycleSchedule schedule;
  reader.read("pct_start", schedule.pct_start);
  reader.read("div_factor", schedule.div_factor);
  reader.read("final_div_factor", schedule.final_div_factor);
  schedule.anneal_strategy = runner::choice<Anneal>(
      reader, "anneal_strategy", {{"cos", Anneal::kCosine}, {"linear", Anneal::kLinear}});
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
                                          {"cosine_cycles", read_cosine_cycles},
                                          {"warmup_constant", read_warmup_constant},
                                          {"warmup_cosine", read_warmup_cosine},
                                          {"warmup_cosine_restarts", read_warmup_cosine_restarts},
                                          {"warmup_inverse_sqrt", read_warmup_inverse_sqrt},
                                          {"warmup_linear", read_warmup_linear},
                                          {"warmup_polynomial", read_warmup_polynomial},
                                          {"step", read_step},
                                          {"multi_step", read_multi_step},
                                          {"exponential", read_exponential},
                                          {"one_cycle", read_one_cycle},
                                          {"plateau", read_plateau}});
  return read ? read(reader) : Schedule{};
}

}  // namespace stages
