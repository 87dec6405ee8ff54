#include "stages/train/plateau.h"

#include <cmath>
#include <fstream>
#include <limits>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "stages/train/scheduler.h"
#include "tests/support/shared_data.h"

namespace stages {
namespace {

using nlohmann::json;

/// Follows a recorded plateau, a validation an epoch; at every epoch a new scheduler continues from what
/// the one before had to save.
void expect_recorded(const std::string& name, bool higher_is_better) {
  const auto path = shared_data("cases/parity/losses/" + name + ".json");
  RETORT_NEEDS_SHARED(path);
  const json recorded = json::parse(std::ifstream(path)), given = recorded["case"]["kwargs"];
  const PlateauSchedule schedule{.factor = given["factor"],
                                 .patience = given["patience"],
                                 .threshold = given["threshold"],
                                 .relative = given.value("threshold_mode", "rel") == "rel",
                                 .cooldown = given.value("cooldown", 0),
                                 .min_learning_rate = given.value("min_lr", 0.0)};
  const double learning_rate = recorded["case"]["lr"];
  const json& metric = recorded["case"]["metric"];
  ASSERT_EQ(recorded["rates"].size(), metric.size() + 1);
  std::string saved;
  double last = 0;
  for (std::size_t epoch = 0; epoch < recorded["rates"].size(); ++epoch) {
    Scheduler scheduler(schedule, {learning_rate}, 61, higher_is_better);
    if (!saved.empty()) scheduler.load_state(json::parse(saved));
    const auto now = static_cast<std::int64_t>(epoch);
    last = scheduler.at(now, now)[0].learning_rate;
    const double expected = recorded["rates"][epoch];
    EXPECT_NEAR(last, expected, 1e-12 * expected) << "at epoch " << epoch;
    if (epoch < metric.size()) scheduler.observe(metric[epoch]);
    saved = scheduler.state().dump();
  }
  EXPECT_LT(last, 0.5 * learning_rate);  // it was lowered at all
}

TEST(Plateau, OfAccuracyIsTorchs) { expect_recorded("schedule_plateau_max", true); }
TEST(Plateau, OfLossWithCooldownAndFloorIsTorchs) { expect_recorded("schedule_plateau_min_cooldown", false); }

/// The rate, first 1, after each of some losses.
std::vector<double> rates(const PlateauSchedule& schedule, const std::vector<double>& losses) {
  PlateauState state;
  std::vector<double> result;
  for (const double loss : losses) {
    observe(state, schedule, loss, /*higher_is_better=*/false);
    result.push_back(reduced(schedule, 1.0, state.reductions));
  }
  return result;
}

TEST(Plateau, ThresholdIsAShareOfTheBest) {
  const PlateauSchedule schedule{.factor = 0.5, .patience = 0, .threshold = 0.1};
  EXPECT_EQ(rates(schedule, {10, 9.1, 8.9, 8.9}), (std::vector<double>{1, 0.5, 0.5, 0.25}));
}

TEST(Plateau, ThresholdIsADifference) {
  const PlateauSchedule schedule{.factor = 0.5, .patience = 0, .threshold = 0.1, .relative = false};
  EXPECT_EQ(rates(schedule, {10, 9.95, 9.8}), (std::vector<double>{1, 0.5, 0.5}));
}

TEST(Plateau, WhatIsNotFiniteIsNeverBetter) {
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  const PlateauSchedule schedule{.factor = 0.5, .patience = 1};
  EXPECT_EQ(rates(schedule, {nan, -infinity, 5, 4, nan, infinity}), (std::vector<double>{1, 0.5, 0.5, 0.5, 0.5, 0.25}));
}

TEST(Plateau, NoRateRisesToTheFloor) {
  const PlateauSchedule schedule{.factor = 0.5, .min_learning_rate = 0.3};
  EXPECT_EQ(reduced(schedule, 1.0, 1), 0.5);
  EXPECT_EQ(reduced(schedule, 1.0, 2), 0.3);
  EXPECT_EQ(reduced(schedule, 1.0, 3), 0.3);
  EXPECT_EQ(reduced(schedule, 0.2, 3), 0.2);
}

TEST(Plateau, StateKeepsEveryBit) {
  PlateauState state{.best = 0.1 + 0.2, .bad_validations = 3, .cooldown_left = 2, .reductions = 7};
  EXPECT_EQ(plateau_state_from_json(json::parse(to_json(state).dump())), state);
  state.best.reset();
  EXPECT_EQ(plateau_state_from_json(json::parse(to_json(state).dump())), state);
}

TEST(Plateau, WhatIsNoStateIsRefused) {
  const auto refusal = [](const char* text) -> std::string {
    try {
      plateau_state_from_json(json::parse(text));
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "taken";
  };
  EXPECT_EQ(refusal("[]"), "the schedule's state has no 'best'");
  EXPECT_EQ(refusal(R"({"best": "good"})"), "the schedule's state has a 'best' that is no number");
  EXPECT_EQ(refusal(R"({"best": 1, "bad_validations": -1})"),
            "the schedule's state has a 'bad_validations' that is no count");
  EXPECT_EQ(refusal(R"({"best": 1, "bad_validations": 1, "cooldown_left": 0})"),
            "the schedule's state has no 'reductions'");
}

}  // namespace
}  // namespace stages
