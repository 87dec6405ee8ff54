#pragma once

#include <cstdint>
#include <optional>

#include <torch/types.h>

#include "stages/checkpoint/checkpoint_folder.h"

/// A small training run after `step` steps: everything in it depends on `step`.
inline stages::TrainingState training_state(std::int64_t step, std::optional<double> metric = {}) {
  stages::TrainingState state;
  const auto number = static_cast<double>(step);
  state.model = {{"head.weight", torch::full({3, 4}, number)},
                 {"head.steps", torch::full({}, step)}};
  state.optimizer = {{"head.weight.exp_avg", torch::full({3, 4}, number / 3)}};
  state.step = step;
  state.epoch = step / 10;
  state.batch = step % 10;
  state.seed = 0xfedcba9876543210;
  state.threads = 2;
  state.recipe_hash = "abc";
  state.metric = metric;
  state.scaler = {{"scale", 65536.0}, {"good_steps", step}};
  state.schedule = {{"best", 0.1 + number}};
  state.plan = {{"micro_batch", 8}};
  return state;
}

inline void expect_same(const stages::NamedTensors& a, const stages::NamedTensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) {
    EXPECT_EQ(b.at(name).scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(b.at(name).equal(tensor)) << name;
  }
}

inline void expect_same(const stages::TrainingState& a, const stages::TrainingState& b) {
  EXPECT_EQ(stages::state_json(a), stages::state_json(b));
  expect_same(a.model, b.model);
  expect_same(a.optimizer, b.optimizer);
}
