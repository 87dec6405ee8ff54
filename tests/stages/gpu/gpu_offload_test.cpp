// Tests of an optimizer on a GPU with its state in host memory.

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "stages/machine/memory_meter.h"
#include "stages/train/optimizer.h"
#include "tests/support/needs_gpu.h"
#include "tests/support/tiny_training.h"

namespace stages {
namespace {

/// Weights of 4, 64 and 16 MiB, and some small ones, on the GPU.
struct LargeOptimizer {
  explicit LargeOptimizer(bool offloads) : optimizer(kAdamW, parameters(), offloads) {}

  NamedTensors parameters() {
    NamedTensors named;
    for (const std::int64_t elements : {1 << 20, 100, 1 << 24, 7, 1 << 22}) {
      all.push_back(torch::linspace(-1, 1, elements, at::device(kGpu)).requires_grad_());
      named.set("p" + std::to_string(all.size()), all.back());
    }
    return named;
  }
  void step(std::int64_t number) {
    for (const at::Tensor& one : all) one.mutable_grad() = (one.detach() * 3 + number).cos();
    const at::Tensor scratch = optimizer.prepare();
    optimizer.step(torch::zeros({}, at::device(kGpu)), {}, scratch);
    for (const at::Tensor& one : all) one.mutable_grad().reset();
  }

  std::vector<at::Tensor> all;
  Optimizer optimizer;
};

TEST(GpuOffload, WeightsAndStateAreEqualBitForBit) {
  NEEDS_GPU();
  LargeOptimizer there(false), away(true);
  for (std::int64_t number = 1; number <= 4; ++number) {
    there.step(number);
    away.step(number);
  }
  for (std::size_t i = 0; i < there.all.size(); ++i)
    EXPECT_TRUE(there.all[i].equal(away.all[i])) << i;
  const NamedTensors state = away.optimizer.state();
  for (const auto& [name, tensor] : there.optimizer.state()) {
    EXPECT_TRUE(tensor.cpu().equal(state.at(name).cpu())) << name;
    if (!name.ends_with(".age")) {
      EXPECT_TRUE(state.at(name).is_cpu() && state.at(name).is_pinned()) << name;
    }
  }
  LargeOptimizer continued(true);
  const torch::NoGradGuard no_graph;
  for (std::size_t i = 0; i < there.all.size(); ++i) continued.all[i].copy_(there.all[i]);
  continued.optimizer.load_state(there.optimizer.state());
  there.step(5);
  continued.step(5);
  for (std::size_t i = 0; i < there.all.size(); ++i)
    EXPECT_TRUE(there.all[i].equal(continued.all[i])) << i;
}

TEST(GpuOffload, StateIsNotOnTheGpuBetweenSteps) {
  NEEDS_GPU();
  const MemoryMeter meter(kGpu);
  const auto held = [&](bool offloads) {
    LargeOptimizer one(offloads);
    const std::int64_t before = meter.in_use();
    one.step(1);
    return meter.in_use() - before;
  };
  EXPECT_GE(held(false), 2 * (84 << 20));
  EXPECT_LE(held(true), 1 << 16);
}

/// A training run of a tiny model on the GPU.
at::Tensor weights_after(bool offloads, bool in_backward) {
  TinyTraining training;
  training.context.facts.device = kGpu.str();
  training.policy.offloads_optimizer = offloads;
  training.policy.optimizer_in_backward = in_backward;
  training.run();
  return training.flat_weights().cpu();
}

TEST(GpuOffload, TrainingIsEqualBitForBit) {
  NEEDS_GPU();
  const at::Tensor plain = weights_after(false, false);
  EXPECT_TRUE(weights_after(true, false).equal(plain));
  EXPECT_TRUE(weights_after(false, true).equal(plain));
  EXPECT_TRUE(weights_after(true, true).equal(plain));
}

}  // namespace
}  // namespace stages
