#include "stages/train/step_snapshot.h"

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

}  // namespace
}  // namespace stages
