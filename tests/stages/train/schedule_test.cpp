#include "stages/train/schedule.h"

#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner/config_reader.h"
#include "runner/stage.h"
#include "tests/support/shared_data.h"
#include "tests/support/stage_options.h"

namespace stages {
namespace {

void expect_close(double actual, double expected, std::size_t step) {
  EXPECT_NEAR(actual, expected, 1e-12 * std::abs(expected) + 1e-18) << "at step " << step;
}

/// Every rate of a recorded case, of a run of `steps` steps.
void expect_recorded(const std::string& name, const Schedule& schedule, std::int64_t steps) {
  const auto path = shared_data("cases/parity/losses/" + name + ".json");
  RETORT_NEEDS_SHARED(path);
  const auto recorded = nlohmann::json::parse(std::ifstream(path));
  const double learning_rate = recorded["case"]["lr"];
  ASSERT_EQ(recorded["rates"].size(), 61);
  for (std::size_t step = 0; step < 61; ++step) {
    const Rates rates = rates_at(schedule, learning_rate, static_cast<std::int64_t>(step), steps);
    expect_close(rates.learning_rate, recorded["rates"][step], step);
    if (!recorded.contains("beta1") || step == 60) {
      EXPECT_EQ(rates.momentum.has_value(), recorded.contains("beta1"));
    } else {
      expect_close(rates.momentum.value(), recorded["beta1"][step], step);
    }
  }
}

OneCycleSchedule one_cycle(double pct_start) {
  return {.pct_start = pct_start,
          .div_factor = 25,
          .final_div_factor = 1e4,
          .cycle_momentum = true,
          .base_momentum = 0.85,
          .max_momentum = 0.95};
}

TEST(Schedule, CosineIsTorchs) { expect_recorded("schedule_cosine", CosineSchedule{1e-6}, 60); }
TEST(Schedule, CosinePastItsEndRisesAsTorchs) { expect_recorded("schedule_cosine_past_end", CosineSchedule{1e-5}, 25); }
TEST(Schedule, WarmupCosineIsTorchsLinearThenCosine) {
  expect_recorded(
      "schedule_warmup_cosine",
      WarmupCosineSchedule{.warmup_steps = 10, .warmup_fraction = {}, .start_factor = 0.01, .min_learning_rate = 1e-6},
      60);
}
TEST(Schedule, WarmupFromZeroIsTransformersCosine) {
  expect_recorded(
      "schedule_hf_cosine",
      WarmupCosineSchedule{.warmup_steps = {}, .warmup_fraction = 0.1, .start_factor = 0, .min_learning_rate = 0}, 60);
}
TEST(Schedule, OneCycleIsTorchs) { expect_recorded("schedule_onecycle", one_cycle(0.1), 61); }
TEST(Schedule, OneCycleInThreePhasesIsTorchs) {
  OneCycleSchedule schedule = one_cycle(0.3);
  schedule.three_phase = true;
  schedule.anneal_strategy = Anneal::kLinear;
  schedule.div_factor = 10;
  schedule.final_div_factor = 100;
  expect_recorded("schedule_onecycle_three_phase", schedule, 61);
}

TEST(Schedule, ConstantStays) {
  EXPECT_EQ(rates_at(ConstantSchedule{}, 0.25, 0, 10).learning_rate, 0.25);
  EXPECT_EQ(rates_at(ConstantSchedule{}, 0.25, 9, 10).learning_rate, 0.25);
}

TEST(Schedule, OneCycleOfVeryFewStepsIsFinite) {
  for (const double pct_start : {0.0, 0.1, 0.3, 0.5, 1.0}) {
    for (const bool three_phase : {false, pct_start <= 0.5}) {
      OneCycleSchedule schedule = one_cycle(pct_start);
      schedule.three_phase = three_phase;
      for (std::int64_t steps = 1; steps <= 20; ++steps) {
        for (std::int64_t step = 0; step < steps; ++step) {
          const Rates rates = rates_at(schedule, 1.0, step, steps);
          EXPECT_TRUE(rates.learning_rate > 0 && rates.learning_rate <= 1 + 1e-12)
              << pct_start << " " << step << "/" << steps;
          EXPECT_TRUE(*rates.momentum > 0.85 - 1e-12 && *rates.momentum < 0.95 + 1e-12);
        }
      }
    }
  }
}

TEST(Schedule, OneCycleWhoseRiseIsOneStepBeginsAtTheTop) {
  EXPECT_EQ(rates_at(one_cycle(0.1), 1.0, 0, 10).learning_rate, 1.0);
}

TEST(Schedule, WarmupLongerThanTheTrainingIsRefused) {
  const WarmupCosineSchedule schedule{
      .warmup_steps = 100, .warmup_fraction = {}, .start_factor = 0, .min_learning_rate = 0};
  EXPECT_NO_THROW(check_length(schedule, 101));
  try {
    check_length(schedule, 60);
    FAIL();
  } catch (const runner::StageError& error) {
    EXPECT_STREQ(error.what(), "the warm-up takes 100 steps and the whole training only 60");
    EXPECT_EQ(error.option, "/schedule/warmup_steps");
    EXPECT_EQ(error.help, "lower warmup_steps, or train for more epochs");
  }
}

/// The errors of reading `json` as a schedule for a learning rate of 0.001.
runner::Diagnostics errors_of(const std::string& json) {
  const auto kind = nlohmann::json::parse(json)["kind"].get<std::string>();
  const runner::Value value = stage_options("train/schedule/" + kind, json);
  runner::ConfigReader reader(value, "/train/schedule");
  read_schedule(reader, 0.001);
  return reader.finish();
}

TEST(Schedule, EveryOptionIsRead) {
  EXPECT_TRUE(errors_of(R"({"kind": "constant"})").empty());
  EXPECT_TRUE(errors_of(R"({"kind": "cosine"})").empty());
  EXPECT_TRUE(errors_of(R"({"kind": "warmup_cosine", "warmup_fraction": 0.1})").empty());
  EXPECT_TRUE(errors_of(R"({"kind": "one_cycle"})").empty());
}

TEST(Schedule, WarmupSaidTwiceOrNeverIsRefused) {
  auto errors = errors_of(R"({"kind": "warmup_cosine", "warmup_steps": 5, "warmup_fraction": 0.1})");
  ASSERT_EQ(errors.size(), 1);
  EXPECT_EQ(errors[0].message, "warmup_steps and warmup_fraction both say how long to warm up");
  EXPECT_EQ(errors[0].pointer, "/train/schedule/warmup_steps");
  EXPECT_EQ(errors[0].help, "leave one of them out");
  errors = errors_of(R"({"kind": "warmup_cosine"})");
  ASSERT_EQ(errors.size(), 1);
  EXPECT_EQ(errors[0].message, "neither warmup_steps nor warmup_fraction says how long to warm up");
}

TEST(Schedule, ContradictionsAreRefused) {
  auto errors = errors_of(R"({"kind": "cosine", "min_learning_rate": 0.01})");
  ASSERT_EQ(errors.size(), 1);
  EXPECT_EQ(errors[0].message, "min_learning_rate is above the optimizer's learning_rate");
  errors = errors_of(R"({"kind": "one_cycle", "three_phase": true, "pct_start": 0.6, "base_momentum": 0.96})");
  ASSERT_EQ(errors.size(), 2);
  EXPECT_EQ(errors[0].message, "pct_start is above 0.5, and three_phase needs it twice");
  EXPECT_EQ(errors[1].message, "base_momentum is above max_momentum");
}

}  // namespace
}  // namespace stages
