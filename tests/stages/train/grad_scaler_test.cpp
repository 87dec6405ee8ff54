#include "stages/train/grad_scaler.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace stages {
namespace {

TEST(GradScaler, SavedStateContinuesAsIfNeverInterrupted) {
  const GradScaler::Options options{.growth_interval = 3};
  GradScaler whole(options, torch::kCPU), resumed(options, torch::kCPU);
  const at::Tensor fine = torch::zeros({}), overflow = torch::ones({});
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

TEST(GradScaler, StateOfSomethingElseIsRefused) {
  GradScaler scaler({}, torch::kCPU);
  EXPECT_THROW(scaler.load_state({{"scale", torch::ones({})}}), std::invalid_argument);
  EXPECT_THROW(scaler.load_state({{"scale", torch::ones(2)}, {"growth_tracker", torch::zeros({}, torch::kInt)}}),
               std::invalid_argument);
}

}  // namespace
}  // namespace stages
