#include "stages/plan/recorder.h"

#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>

#include "stages/machine/counting_allocator.h"

namespace stages {
namespace {

TEST(SavedTensorsTest, ResultSavedByItsGraphIsFreedWithTheGraph) {
  const at::Tensor x = torch::ones({64}).requires_grad_(true);
  const CountingAllocator counter;
  std::int64_t shown = 0;
  {
    const ScopedSavedTensors saved([&](const at::Tensor&) { ++shown; });
    const at::Tensor y = x.sigmoid();  // its derivative is computed from its result
  }
  EXPECT_EQ(shown, 1);
  EXPECT_EQ(counter.live_bytes(), 0);
}

TEST(SavedTensorsTest, GradientsAreTheSame) {
  const at::Tensor x = torch::linspace(-1, 1, 8).requires_grad_(true);
  const auto gradient = [&] {
    return torch::autograd::grad({(x.sigmoid() * x.tanh()).sum()}, {x})[0];
  };
  const at::Tensor plain = gradient();
  const ScopedSavedTensors saved([](const at::Tensor&) {});
  EXPECT_TRUE(gradient().equal(plain));
}

}  // namespace
}  // namespace stages
