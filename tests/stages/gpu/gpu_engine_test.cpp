// Checks that a network can be trained on a GPU before and after a plan, which replaces torch's
// autograd engine.

#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>

#include "stages/plan/recorder.h"
#include "tests/support/needs_gpu.h"

namespace stages {
namespace {

at::Tensor slope_on_gpu() {
  const at::Tensor x = torch::ones({3}, at::device(kGpu)).requires_grad_();
  (x * x).sum().backward();
  return x.grad().cpu();
}

TEST(GpuEngine, BackwardPassMayPrecedeAPlan) {
  NEEDS_GPU();
  const at::Tensor before = slope_on_gpu();
  {
    const ScopedSavedTensors saved([](const at::Tensor&) {});
  }
  EXPECT_TRUE(slope_on_gpu().equal(before));
}

}  // namespace
}  // namespace stages
