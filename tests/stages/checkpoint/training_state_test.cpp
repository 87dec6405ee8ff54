#include "stages/checkpoint/checkpoint_folder.h"

#include <cmath>
#include <limits>
#include <stdexcept>

#include <gtest/gtest.h>

#include "tests/support/training_states.h"

namespace stages {
namespace {

TEST(TrainingState, RoundTripKeepsEverything) {
  TrainingState state = training_state(1234, 0.25);
  state.seed = std::numeric_limits<std::uint64_t>::max();
  const TrainingState read = state_from_json(state_json(state));
  EXPECT_EQ(read.step, 1234);
  EXPECT_EQ(read.epoch, 123);
  EXPECT_EQ(read.batch, 4);
  EXPECT_EQ(read.seed, state.seed);
  EXPECT_EQ(read.threads, 2);
  EXPECT_EQ(read.recipe_hash, "abc");
  EXPECT_EQ(read.metric, 0.25);
  EXPECT_EQ(read.scaler, state.scaler);
  EXPECT_EQ(read.schedule, state.schedule);
  EXPECT_EQ(read.plan, state.plan);
  EXPECT_TRUE(read.random.is_null());
  EXPECT_TRUE(read.stopping.is_null());
}

TEST(TrainingState, NumbersKeepTheirBits) {
  for (const double number :
       {0.1, 1.0 / 3, 5e-324, 1.7976931348623157e308, -0.0, 1.0, 9007199254740993.0}) {
    const TrainingState read = state_from_json(state_json(training_state(1, number)));
    EXPECT_EQ(*read.metric, number);
    EXPECT_EQ(std::signbit(*read.metric), std::signbit(number));
  }
}

TEST(TrainingState, NonFiniteNumberIsNotWritten) {
  TrainingState state = training_state(1);
  state.schedule = {{"best", {1.0, std::numeric_limits<double>::infinity()}}};
  try {
    state_json(state);
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(),
                 "the training state contains a number that is not finite: /schedule/best/1");
  }
}

std::string refusal(const std::string& key, const nlohmann::json& value) {
  auto document = nlohmann::json::parse(state_json(training_state(1)));
  if (value.is_discarded()) document.erase(key);
  else document[key] = value;
  try {
    state_from_json(document.dump());
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "it was read";
}

TEST(TrainingState, MissingOrMistypedFieldsAreRejected) {
  const nlohmann::json none(nlohmann::json::value_t::discarded);
  for (const char* key :
       {"step", "epoch", "batch", "threads", "seed", "recipe_hash", "metric", "scaler", "plan"}) {
    EXPECT_EQ(refusal(key, none), std::string("its state.json has no '") + key + "'");
  }
  EXPECT_EQ(refusal("step", -1), "its state.json has a 'step' that is not a count");
  EXPECT_EQ(refusal("step", 1.5), "its state.json has a 'step' that is not a count");
  EXPECT_EQ(refusal("epoch", std::uint64_t{1} << 63),
            "its state.json has a 'epoch' that is not a count");
  EXPECT_EQ(refusal("seed", -1), "its state.json has a 'seed' that is not a seed");
  EXPECT_EQ(refusal("metric", "0.5"), "its state.json has a 'metric' that is not a number");
  EXPECT_EQ(refusal("recipe_hash", 1), "its state.json has a 'recipe_hash' that is not a string");
  EXPECT_EQ(refusal("schedule", 1), "its state.json has a 'schedule' that is not an object");
  EXPECT_EQ(refusal("schedule", nullptr), "it was read");
  for (const char* text : {"", "[]", "{", "null", "{\"step\":1e999}"}) {
    EXPECT_THROW(state_from_json(text), std::runtime_error) << text;
  }
}

}  // namespace
}  // namespace stages
