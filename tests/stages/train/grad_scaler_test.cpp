#include "stages/train/grad_scaler.h"
#include "tests/support/on_test_device.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>
#include <torch/types.h>

namespace stages {
namespace {

TEST(GradScaler, RestoredStateContinuesSeamlessly) {
  const GradScaler::Options options{.growth_interval = 3};
  GradScaler whole(options, at::Device(test_device())), resumed(options, at::Device(test_device()));
  const at::Tensor fine = torch::zeros({}, here()), overflow = torch::ones({}, here());
  whole.update(overflow);
  whole.update(fine);
  whole.update(fine);
  NamedTensors saved;
  for (const auto& [name, tensor] : whole.state()) saved.set(name, tensor.clone());
  resumed.load_state(saved);
  whole.update(fine);
  resumed.update(fine);
  EXPECT_EQ(whole.scale().item<float>(), 65536.0F);
  EXPECT_EQ(resumed.scale().item<float>(), 65536.0F);
}

TEST(GradScaler, GradientIsDividedByTheScaleExactly) {
  const GradScaler scaler({.initial_scale = 1024}, at::Device(test_device()));
  const at::Tensor gradient = torch::tensor({0.1F, -3.0F, 1e-20F, 0.0F}, here());
  const std::vector<at::Tensor> scaled = {gradient * 1024, gradient[1] * 1024};
  EXPECT_EQ(scaler.unscale(scaled).item<float>(), 0);
  EXPECT_TRUE(scaled[0].equal(gradient));
  EXPECT_TRUE(scaled[1].equal(gradient[1]));
}

TEST(GradScaler, NonFiniteGradientIsAnOverflow) {
  const GradScaler scaler({}, at::Device(test_device()));
  for (const float value : {std::numeric_limits<float>::infinity(), std::nanf("")})
    EXPECT_EQ(scaler.unscale({torch::ones(3, here()), torch::tensor({1.0F, value}, here())})
                  .item<float>(),
              1)
        << value;
  EXPECT_EQ(scaler.unscale({}).item<float>(), 0);
}

TEST(GradScaler, InvalidStateIsRejected) {
  GradScaler scaler({}, at::Device(test_device()));
  EXPECT_THROW(scaler.load_state({{"scale", torch::ones({}, here())}}), std::invalid_argument);
  EXPECT_THROW(scaler.load_state({{"scale", torch::ones(2, here())},
                                  {"growth_tracker", torch::zeros({}, here().dtype(torch::kInt))}}),
               std::invalid_argument);
}

}  // namespace
}  // namespace stages
