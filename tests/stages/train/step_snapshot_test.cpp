#include "stages/train/step_snapshot.h"

#include <cmath>
#include <optional>
#include <vector>

#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include "tests/support/on_test_device.h"

namespace stages {
namespace {

TEST(StepSnapshot, RestoresBuffersAndGeneratorAndDropsGradients) {
  torch::manual_seed(1);
  torch::nn::Sequential network(torch::nn::Linear(2, 4), torch::nn::BatchNorm1d(4));
  network->to(at::Device(test_device()));
  const StepSnapshot before(*network, at::Device(test_device()));
  std::vector<at::Tensor> buffers, parameters;
  for (const at::Tensor& buffer : network->buffers()) buffers.push_back(buffer.clone());
  for (const at::Tensor& parameter : network->parameters())
    parameters.push_back(parameter.detach().clone());
  const at::Tensor drawn = torch::rand(5, here());
  network->forward(torch::randn({8, 2}, here())).sum().backward();
  EXPECT_FALSE(network->buffers()[0].equal(buffers[0]));

  before.restore();
  EXPECT_TRUE(torch::rand(5, here()).equal(drawn));
  ASSERT_EQ(buffers.size(), 3);
  for (std::size_t i = 0; i < buffers.size(); ++i)
    EXPECT_TRUE(network->buffers()[i].equal(buffers[i])) << i;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_TRUE(network->parameters()[i].equal(parameters[i])) << i;
    EXPECT_FALSE(network->parameters()[i].grad().defined()) << i;
  }
}

/// A BatchNorm layer, which changes its running statistics in every pass.
struct Normed {
  torch::nn::BatchNorm1d norm{2};
  Normed() { norm->to(at::Device(test_device())); }
  void pass() { norm->forward(torch::rand({8, 2}, here()) + 1); }
  at::Tensor mean() const { return norm->running_mean.clone(); }
};

TEST(StepSnapshot, SavesAgainInTheSameMemory) {
  Normed one;
  StepSnapshot before(*one.norm, at::Device(test_device()));
  one.pass();
  const at::Tensor mean = one.mean();
  before.save();
  one.pass();
  EXPECT_FALSE(one.mean().equal(mean));
  before.restore();
  EXPECT_TRUE(one.mean().equal(mean));
  EXPECT_EQ(one.norm->num_batches_tracked.item<std::int64_t>(), 1);
}

TEST(StepSnapshot, BufferMayGrowBetweenSteps) {
  Normed one;
  StepSnapshot before(*one.norm, at::Device(test_device()));
  one.norm->running_mean.set_data(torch::ones({5}, here()));
  before.save(torch::zeros({}, here()));
  one.norm->running_mean.zero_();
  before.restore();
  EXPECT_TRUE(one.mean().equal(torch::ones({5}, here())));
}

TEST(StepSnapshot, KeepsTheBuffersBeforeAFailedStep) {
  Normed one;
  const at::Tensor mean = one.mean();
  StepSnapshot before(*one.norm, at::Device(test_device()));
  const GeneratorStates generators = before.generators();
  const at::Tensor drawn = torch::rand(3, here());
  one.norm->running_mean.fill_(std::nan(""));
  before.save(torch::ones({}, here()));
  one.pass();
  before.restore(generators);
  EXPECT_TRUE(one.mean().equal(mean));
  EXPECT_EQ(one.norm->num_batches_tracked.item<std::int64_t>(), 0);
  EXPECT_TRUE(torch::rand(3, here()).equal(drawn));
  one.pass();
  before.save(torch::zeros({}, here()));
  const at::Tensor renewed = one.mean();
  one.pass();
  before.restore();
  EXPECT_TRUE(one.mean().equal(renewed));
}

/// Buffers that do not lie in memory in the order of their elements.
struct Strided : torch::nn::Module {
  Strided() {
    register_buffer("last", numbers().contiguous(at::MemoryFormat::ChannelsLast));
    register_buffer("transposed", numbers().flatten(1).t());
    register_buffer("part", numbers().select(1, 2));
    register_buffer("flag", torch::ones({3}, here().dtype(torch::kBool)));
    register_buffer("empty", torch::ones({0}, here()));
  }
  static at::Tensor numbers() { return torch::rand({2, 3, 4, 5}, here()); }
};

TEST(StepSnapshot, BufferOfANetworkOnAGpuMayBeOnTheCpu) {
  torch::nn::Sequential network(torch::nn::BatchNorm1d(4));
  network->to(at::Device(test_device()));
  const at::Tensor own = network->register_buffer("own", torch::zeros({3}));
  StepSnapshot before(*network, at::Device(test_device()));
  own.fill_(1);
  before.save(torch::zeros({}, here()));
  own.fill_(2);
  before.save(torch::ones({}, here()));
  before.restore();
  EXPECT_TRUE(own.equal(torch::ones({3})));
}

TEST(StepSnapshot, RestoresBuffersWithAnyStrides) {
  Strided network;
  StepSnapshot before(network, at::Device(test_device()));
  for (const auto& failed :
       {std::optional<at::Tensor>(), std::optional(torch::zeros({}, here()))}) {
    std::vector<at::Tensor> values;
    for (at::Tensor& buffer : network.buffers())
      values.push_back(buffer.copy_(torch::rand(buffer.sizes(), here()) > 0.5).clone());
    before.save(failed);
    for (at::Tensor& buffer : network.buffers()) buffer.fill_(7);
    before.restore();
    for (std::size_t i = 0; i < values.size(); ++i)
      EXPECT_TRUE(network.buffers()[i].equal(values[i])) << i;
  }
}

TEST(StepSnapshot, BufferMayMoveBetweenSteps) {
  Normed one;
  StepSnapshot before(*one.norm, at::Device(test_device()));
  one.norm->running_mean.set_data(torch::full({2}, 5.0, here()));
  before.save();
  one.norm->running_mean.zero_();
  before.restore();
  EXPECT_TRUE(one.mean().equal(torch::full({2}, 5.0, here())));
}

TEST(StepSnapshot, BuffersBeforeAFailedStepAreKeptWhenAnotherGrows) {
  Normed one;
  const at::Tensor variance = one.norm->running_var.clone();
  StepSnapshot before(*one.norm, at::Device(test_device()));
  one.pass();
  one.norm->running_mean.set_data(torch::ones({5}, here()));
  before.save(torch::ones({}, here()));
  one.norm->running_mean.zero_();
  before.restore();
  EXPECT_TRUE(one.mean().equal(torch::ones({5}, here())));
  EXPECT_TRUE(one.norm->running_var.equal(variance));
  EXPECT_EQ(one.norm->num_batches_tracked.item<std::int64_t>(), 0);
}

}  // namespace
}  // namespace stages
