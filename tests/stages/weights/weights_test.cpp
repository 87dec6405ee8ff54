#include "stages/weights/weights.h"

#include <stdexcept>

#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

namespace stages {
namespace {

TEST(Weights, IncludeParametersAndBuffers) {
  torch::nn::Sequential network(torch::nn::Linear(2, 3), torch::nn::BatchNorm1d(3));
  network[0]->as<torch::nn::LinearImpl>()->bias.set_requires_grad(false);
  const NamedTensors all = weights(*network), trained = trained_parameters(*network);
  EXPECT_TRUE(all.contains("0.bias"));
  EXPECT_TRUE(all.contains("1.running_mean"));
  EXPECT_FALSE(trained.contains("0.bias"));
  EXPECT_FALSE(trained.contains("1.running_mean"));
  EXPECT_TRUE(trained.contains("1.weight"));
}

TEST(Weights, SetWeightsCopiesAllOrNothing) {
  torch::nn::Linear network(2, 3);
  network->weight.data().zero_();
  network->bias.data().zero_();
  const auto message = [&](const NamedTensors& values) -> std::string {
    try {
      set_weights(*network, values);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  const at::Tensor weight = torch::ones({3, 2}), bias = torch::ones(3);
  EXPECT_EQ(message({{"weight", weight}}), "the weight 'bias' is missing");
  EXPECT_EQ(message({{"weight", weight}, {"bias", torch::ones(2)}}),
            "'bias' has a different shape");
  EXPECT_EQ(message({{"weight", weight}, {"bias", bias}, {"x", bias}}),
            "the network has no weight 'x'");
  EXPECT_TRUE(network->weight.equal(torch::zeros({3, 2})));
  EXPECT_EQ(message({{"weight", weight}, {"bias", bias}}), "");
  EXPECT_TRUE(network->weight.equal(weight));
}

}  // namespace
}  // namespace stages
