#include "stages/train/grad_scaler.h"

#include <filesystem>
#include <fstream>
#include <limits>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <torch/torch.h>

#include "stages/train/optimizer.h"
#include "tests/support/shared_data.h"

namespace stages {
namespace {

using nlohmann::json;

/// Follows what torch.amp.GradScaler did: a parameter of gradient (1, -1) whose second part overflows at some steps.
void follow(const json& recorded) {
  const json& given = recorded["case"]["kwargs"];
  GradScaler scaler({.initial_scale = given.value("init_scale", 65536.0),
                     .growth_factor = given.value("growth_factor", 2.0),
                     .backoff_factor = given.value("backoff_factor", 0.5),
                     .growth_interval = given.value("growth_interval", 2000)},
                    torch::kCPU);
  at::Tensor x = torch::ones(2, torch::requires_grad());
  Optimizer optimizer(SgdOptions{.learning_rate = 0.5}, {{"x", x}});
  const json& overflows = recorded["case"]["overflow"];
  for (std::size_t step = 0; step < overflows.size(); ++step) {
    x.mutable_grad() = at::Tensor();
    ((x * torch::tensor({1.0F, -1.0F})).sum() * scaler.scale()).backward();
    const int overflow = overflows[step];
    if (overflow) {
      x.mutable_grad()[1] = overflow == 1 ? std::numeric_limits<float>::infinity() : std::nanf("");
    }
    optimizer.prepare();
    const at::Tensor found = scaler.unscale(optimizer.gradients());
    EXPECT_EQ(found.item<float>(), overflow ? 1.0F : 0.0F);
    optimizer.step({{.learning_rate = 0.5, .momentum = {}}}, found);
    scaler.update(found);
    const json& expected = recorded["trace"][step];
    EXPECT_EQ(scaler.scale().item<float>(), expected["scale"].get<float>()) << step;
    EXPECT_EQ(scaler.state().at("growth_tracker").item<int>(), expected["growth_tracker"]) << step;
    EXPECT_TRUE(x.equal(torch::tensor(expected["parameter"].get<std::vector<float>>()))) << step;
  }
}

TEST(GradScaler, FollowsTorchsPath) {
  const auto folder = shared_data("cases/parity/losses");
  RETORT_NEEDS_SHARED(folder);
  int followed = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    const json recorded = json::parse(std::ifstream(entry.path()));
    if (recorded["case"]["kind"] != "scaler") continue;
    SCOPED_TRACE(entry.path().filename().string());
    follow(recorded);
    ++followed;
  }
  EXPECT_GE(followed, 2);
}

TEST(GradScaler, SavedStateGoesOnAsIfNeverInterrupted) {
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
