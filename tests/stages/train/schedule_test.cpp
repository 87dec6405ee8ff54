#include "stages/train/schedule.h"

#include <cmath>
#include <numbers>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/stage.h"
#include "stages/train/trainer_options.h"
#include "tests/support/refused.h"
#include "tests/support/stage_options.h"

namespace stages {
namespace {

OneCycleSchedule one_cycle(double pct_start) {
  return {.pct_start = pct_start,
          .div_factor = 25,
          .final_div_factor = 1e4,
          .cycle_momentum = true,
          .base_momentum = 0.85,
          .max_momentum = 0.95};
}

TEST(Schedule, ConstantRateStaysConstant) {
  EXPECT_EQ(rates_at(ConstantSchedule{}, 0.25, {.step = 0, .steps = 10}).learning_rate, 0.25);
  EXPECT_EQ(rates_at(ConstantSchedule{}, 0.25, {.step = 9, .steps = 10}).learning_rate, 0.25);
}

double at_epoch(const Schedule& schedule, std::int64_t epoch) {
  return rates_at(schedule, 1.0, {.step = 0, .steps = 1, .epoch = epoch}).learning_rate;
}

TEST(Schedule, EpochSchedulesFollowEpochsNotSteps) {
  const Schedule every[] = {StepSchedule{.step_size = 1, .gamma = 0.5},
                            MultiStepSchedule{.milestones = {1}, .gamma = 0.5},
                            ExponentialSchedule{0.5}, CosineRestartsSchedule{.first_period = 2}};
  for (const Schedule& schedule : every) {
    const auto rate = [&](std::int64_t step, std::int64_t epoch) {
      return rates_at(schedule, 1.0, {.step = step, .steps = 100, .epoch = epoch}).learning_rate;
    };
    EXPECT_EQ(rate(0, 0), 1.0) << schedule.index();
    EXPECT_EQ(rate(49, 0), 1.0) << schedule.index();
    EXPECT_EQ(rate(50, 1), 0.5) << schedule.index();
  }
}

TEST(Schedule, EqualPeriodsRestartForever) {
  const CosineRestartsSchedule schedule{.first_period = 3};
  EXPECT_EQ(at_epoch(schedule, 3), 1.0);
  EXPECT_DOUBLE_EQ(at_epoch(schedule, 1), 0.75);
  EXPECT_DOUBLE_EQ(at_epoch(schedule, 3 * 333'333 + 1), 0.75);
}

TEST(Schedule, WarmupLinearWithoutWarmupStartsAtTheTop) {
  const WarmupLinearSchedule schedule{.warmup_steps = 0, .warmup_fraction = {}};
  EXPECT_EQ(rates_at(schedule, 1.0, {.step = 0, .steps = 4}).learning_rate, 1.0);
  EXPECT_EQ(rates_at(schedule, 1.0, {.step = 3, .steps = 4}).learning_rate, 0.25);
}

// get_cosine_schedule_with_warmup computes max(0, 0.5 (1 + cos(pi 2 num_cycles progress))).
TEST(Schedule, CosineCyclesMatchTransformers) {
  for (const double cycles : {0.5, 0.25, 1.0, 1.5}) {
    const WarmupCosineSchedule schedule{.warmup_steps = 2, .num_cycles = cycles};
    for (std::int64_t step = 2; step < 12; ++step) {
      const double progress = static_cast<double>(step - 2) / 10;
      EXPECT_NEAR(rates_at(schedule, 1.0, {.step = step, .steps = 12}).learning_rate,
                  0.5 * (1 + std::cos(std::numbers::pi * 2 * cycles * progress)), 1e-14);
    }
  }
}

TEST(Schedule, UnreachedRateIsReported) {
  EXPECT_EQ(unreached_rate(one_cycle(0.3), 0.001, 1),
            "the schedule never reaches the learning rate 0.001: the highest rate in the 1 step of "
            "training is 4e-09");
  EXPECT_EQ(unreached_rate(one_cycle(0.3), 0.001, 10), "");
  EXPECT_EQ(unreached_rate(WarmupLinearSchedule{.warmup_steps = 5}, 0.5, 1),
            "the schedule never reaches the learning rate 0.5: the highest rate in the 1 step of "
            "training is 0");
  EXPECT_EQ(unreached_rate(WarmupCosineSchedule{.warmup_steps = 0}, 0.5, 1), "");
  EXPECT_EQ(unreached_rate(ConstantSchedule{}, 0.5, 1), "");
}

TEST(Schedule, ShareOfTheStepsIsRoundedUp) {
  const Schedule every[] = {
      WarmupLinearSchedule{.warmup_steps = {}, .warmup_fraction = 0.25},
      WarmupCosineSchedule{
          .warmup_steps = {}, .warmup_fraction = 0.25, .start_factor = 0, .min_learning_rate = 0}};
  for (const Schedule& schedule : every) {
    EXPECT_DOUBLE_EQ(rates_at(schedule, 1.0, {.step = 2, .steps = 10}).learning_rate, 2.0 / 3)
        << schedule.index();
    EXPECT_EQ(rates_at(schedule, 1.0, {.step = 3, .steps = 10}).learning_rate, 1.0)
        << schedule.index();
    EXPECT_EQ(rates_at(schedule, 1.0, {.step = 2, .steps = 8}).learning_rate, 1.0)
        << schedule.index();
  }
}

TEST(Schedule, OneCycleOfVeryFewStepsIsFinite) {
  for (const double pct_start : {0.0, 0.1, 0.3, 0.5, 1.0}) {
    for (const bool three_phase : {false, pct_start <= 0.5}) {
      OneCycleSchedule schedule = one_cycle(pct_start);
      schedule.three_phase = three_phase;
      for (std::int64_t steps = 1; steps <= 20; ++steps) {
        for (std::int64_t step = 0; step < steps; ++step) {
          const Rates rates = rates_at(schedule, 1.0, {.step = step, .steps = steps});
          EXPECT_TRUE(rates.learning_rate > 0 && rates.learning_rate <= 1 + 1e-12)
              << pct_start << " " << step << "/" << steps;
          EXPECT_TRUE(*rates.momentum > 0.85 - 1e-12 && *rates.momentum < 0.95 + 1e-12);
        }
      }
    }
  }
}

TEST(Schedule, OneCycleWithAOneStepRiseStartsAtTheTop) {
  EXPECT_EQ(rates_at(one_cycle(0.1), 1.0, {.step = 0, .steps = 10}).learning_rate, 1.0);
}

TEST(Schedule, WarmupLongerThanTrainingIsRejected) {
  const WarmupCosineSchedule schedule{
      .warmup_steps = 100, .warmup_fraction = {}, .start_factor = 0, .min_learning_rate = 0};
  EXPECT_NO_THROW(check_length(schedule, 101));
  EXPECT_REFUSED(check_length(schedule, 60), kOptionConflict, "/schedule/warmup_steps", "100 steps",
                 "60");
}

TEST(Schedule, LinearWarmupLongerThanTrainingIsRejected) {
  EXPECT_NO_THROW(check_length(WarmupLinearSchedule{.warmup_steps = 9, .warmup_fraction = {}}, 10));
  EXPECT_THROW(check_length(WarmupLinearSchedule{.warmup_steps = 10, .warmup_fraction = {}}, 10),
               runner::StageError);
}

struct ReadSchedule {
  Schedule schedule;
  runner::Diagnostics errors;
};

/// Reads `json` as a schedule for a learning rate of 0.001.
ReadSchedule read(const std::string& json) {
  const auto kind = nlohmann::json::parse(json)["kind"].get<std::string>();
  const runner::Value value = stage_options("train/schedule/" + kind, json);
  runner::ConfigReader reader(value, "/train/schedule");
  ReadSchedule result;
  result.schedule = read_schedule(reader);
  result.errors = reader.finish();
  return result;
}
runner::Diagnostics errors_of(const std::string& json) { return read(json).errors; }

TEST(Schedule, OptionsAreAppliedToTheirSchedule) {
  const auto restarts = std::get<CosineRestartsSchedule>(
      read(
          R"({"kind": "cosine_restarts", "first_period": 5, "period_factor": 3, "min_learning_rate": 1e-4})")
          .schedule);
  EXPECT_EQ(restarts.first_period, 5);
  EXPECT_EQ(restarts.period_factor, 3);
  EXPECT_EQ(restarts.min_learning_rate, 1e-4);
  const auto step =
      std::get<StepSchedule>(read(R"({"kind": "step", "step_size": 7, "gamma": 0.6})").schedule);
  EXPECT_EQ(step.step_size, 7);
  EXPECT_EQ(step.gamma, 0.6);
  const auto multi = std::get<MultiStepSchedule>(
      read(R"({"kind": "multi_step", "milestones": [3, 9], "gamma": 0.2})").schedule);
  EXPECT_EQ(multi.milestones, (std::vector<std::int64_t>{3, 9}));
  EXPECT_EQ(multi.gamma, 0.2);
  EXPECT_EQ(std::get<ExponentialSchedule>(read(R"({"kind": "exponential", "gamma": 0.9})").schedule)
                .gamma,
            0.9);
  const auto linear = std::get<WarmupLinearSchedule>(
      read(R"({"kind": "warmup_linear", "warmup_fraction": 0.2})").schedule);
  EXPECT_EQ(linear.warmup_fraction, 0.2);
  const auto plateau = std::get<PlateauSchedule>(
      read(
          R"({"kind": "plateau", "factor": 0.3, "patience": 7, "threshold": 0.01, "threshold_mode": "absolute",
               "cooldown": 2, "min_learning_rate": 1e-5})")
          .schedule);
  EXPECT_EQ(plateau.factor, 0.3);
  EXPECT_EQ(plateau.patience, 7);
  EXPECT_EQ(plateau.threshold, 0.01);
  EXPECT_FALSE(plateau.relative);
  EXPECT_EQ(plateau.cooldown, 2);
  EXPECT_EQ(plateau.min_learning_rate, 1e-5);
  EXPECT_TRUE(std::get<PlateauSchedule>(read(R"({"kind": "plateau"})").schedule).relative);
}

TEST(Schedule, EveryOptionIsRead) {
  EXPECT_TRUE(errors_of(R"({"kind": "constant"})").empty());
  EXPECT_TRUE(errors_of(R"({"kind": "cosine"})").empty());
  EXPECT_TRUE(errors_of(R"({"kind": "warmup_cosine", "warmup_fraction": 0.1})").empty());
  EXPECT_TRUE(errors_of(R"({"kind": "warmup_linear", "warmup_steps": 5})").empty());
  EXPECT_TRUE(errors_of(R"({"kind": "cosine_restarts", "first_period": 5})").empty());
  EXPECT_TRUE(errors_of(R"({"kind": "step", "step_size": 5})").empty());
  EXPECT_TRUE(errors_of(R"({"kind": "multi_step", "milestones": [5]})").empty());
  EXPECT_TRUE(errors_of(R"({"kind": "exponential", "gamma": 0.9})").empty());
  EXPECT_TRUE(errors_of(R"({"kind": "one_cycle"})").empty());
  EXPECT_TRUE(errors_of(R"({"kind": "plateau"})").empty());
}

TEST(Schedule, EveryWarmupMustEndBeforeTrainingEnds) {
  const Schedule with_warmup[] = {
      WarmupConstantSchedule{.warmup_steps = 100, .warmup_fraction = {}},
      WarmupInverseSqrtSchedule{.warmup_steps = 100, .warmup_fraction = {}, .timescale = {}},
      WarmupPolynomialSchedule{.warmup_steps = 100, .warmup_fraction = {}},
      WarmupCosineRestartsSchedule{.warmup_steps = 100, .warmup_fraction = {}}};
  for (const Schedule& schedule : with_warmup)
    EXPECT_REFUSED(check_length(schedule, 60), kOptionConflict, "/schedule/warmup_steps",
                   "100 steps", "more epochs");
}

TEST(Schedule, CyclesEndAtTheLowestRate) {
  const CosineCyclesSchedule schedule{.first_period = 3,
                                      .period_factor = 2,
                                      .peak_factor = 0.5,
                                      .cycle_limit = 2,
                                      .min_learning_rate = 0.1};
  const auto at = [&](std::int64_t epoch) {
    return rates_at(schedule, 1, {.step = 0, .steps = 1, .epoch = epoch}).learning_rate;
  };
  EXPECT_DOUBLE_EQ(at(0), 1);
  EXPECT_DOUBLE_EQ(at(3), 0.5);  // the second cycle
  EXPECT_DOUBLE_EQ(at(6), 0.3);  // halfway through it
  EXPECT_DOUBLE_EQ(at(9), 0.1);
  EXPECT_DOUBLE_EQ(at(1000), 0.1);
}

TEST(Schedule, EveryOptionOfTheSchedulesWithWarmupIsRead) {
  for (const char* kind :
       {"warmup_constant", "warmup_inverse_sqrt", "warmup_polynomial", "warmup_cosine_restarts"}) {
    EXPECT_TRUE(errors_of(std::string(R"({"kind": ")") + kind + R"(", "warmup_steps": 5})").empty())
        << kind;
  }
  EXPECT_TRUE(errors_of(R"({"kind": "cosine_cycles", "first_period": 5})").empty());
}

}  // namespace
}  // namespace stages
