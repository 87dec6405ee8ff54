#include "stages/train/schedule.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace stages {
namespace {

using nlohmann::json;

/// Returns a learning rate after `reductions` reductions.
double rate_after(const PlateauSchedule& schedule, double learning_rate, std::int64_t reductions) {
  return rates_at(schedule, learning_rate, {.reductions = reductions}).learning_rate;
}

/// Returns the rate, initially 1, after each of some losses.
std::vector<double> rates_after(const PlateauSchedule& schedule,
                                const std::vector<double>& losses) {
  PlateauState state;
  std::vector<double> result;
  for (const double loss : losses) {
    observe(state, schedule, loss, /*higher_is_better=*/false);
    result.push_back(rate_after(schedule, 1.0, state.reductions));
  }
  return result;
}

TEST(Plateau, ThresholdCanBeRelative) {
  const PlateauSchedule schedule{.factor = 0.5, .patience = 0, .threshold = 0.1};
  EXPECT_EQ(rates_after(schedule, {10, 9.1, 8.9, 8.9}), (std::vector<double>{1, 0.5, 0.5, 0.25}));
}

TEST(Plateau, ThresholdCanBeAbsolute) {
  const PlateauSchedule schedule{.factor = 0.5, .patience = 0, .threshold = 0.1, .relative = false};
  EXPECT_EQ(rates_after(schedule, {10, 9.95, 9.8}), (std::vector<double>{1, 0.5, 0.5}));
}

TEST(Plateau, NonFiniteIsNeverBetter) {
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  const PlateauSchedule schedule{.factor = 0.5, .patience = 1};
  EXPECT_EQ(rates_after(schedule, {nan, -infinity, 5, 4, nan, infinity}),
            (std::vector<double>{1, 0.5, 0.5, 0.5, 0.5, 0.25}));
}

TEST(Plateau, CooldownFollowsAReduction) {
  const PlateauSchedule schedule{.factor = 0.5, .patience = 0, .cooldown = 2};
  EXPECT_EQ(rates_after(schedule, {9, 9, 9, 9, 9, 9, 9, 9}),
            (std::vector<double>{1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.125}));
}

TEST(Plateau, MinimumDoesNotRaiseLowerRates) {
  const PlateauSchedule schedule{.factor = 0.5, .min_learning_rate = 0.3};
  EXPECT_EQ(rate_after(schedule, 1.0, 1), 0.5);
  EXPECT_EQ(rate_after(schedule, 1.0, 2), 0.3);
  EXPECT_EQ(rate_after(schedule, 1.0, 3), 0.3);
  EXPECT_EQ(rate_after(schedule, 0.2, 3), 0.2);
}

TEST(Plateau, StateKeepsEveryBit) {
  PlateauState state{.best = 0.1 + 0.2, .bad_validations = 3, .cooldown_left = 2, .reductions = 7};
  EXPECT_EQ(plateau_state_from_json(json::parse(to_json(state).dump())), state);
  state.best.reset();
  EXPECT_EQ(plateau_state_from_json(json::parse(to_json(state).dump())), state);
}

TEST(Plateau, InvalidStateIsRejected) {
  const auto refusal = [](const char* text) -> std::string {
    try {
      plateau_state_from_json(json::parse(text));
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "taken";
  };
  EXPECT_EQ(refusal("[]"), "the schedule's state is not a JSON object");
  EXPECT_EQ(refusal(R"({"best": "good"})"),
            "the schedule's state has a 'best' that is not a number");
  EXPECT_EQ(refusal(R"({"best": 1, "bad_validations": -1})"),
            "the schedule's state has a 'bad_validations' that is not a count");
  EXPECT_EQ(refusal(R"({"best": 1, "bad_validations": 1, "cooldown_left": 0})"),
            "the schedule's state has no 'reductions'");
}

}  // namespace
}  // namespace stages
