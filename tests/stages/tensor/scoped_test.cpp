#include "stages/tensor/step_phase.h"

#include <stdexcept>

#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

namespace stages {
namespace {

TEST(ScopedEval, ModeOfEachModuleIsRestoredAfterAnException) {
  torch::nn::Sequential network(torch::nn::Linear(2, 2), torch::nn::BatchNorm1d(2));
  network->train();
  network[1]->as<torch::nn::BatchNorm1dImpl>()->eval();  // frozen statistics
  EXPECT_THROW(
      {
        const ScopedEval eval(*network);
        EXPECT_FALSE(network->is_training());
        EXPECT_FALSE(network[0]->as<torch::nn::LinearImpl>()->is_training());
        throw std::runtime_error("midway");
      },
      std::runtime_error);
  EXPECT_TRUE(network->is_training());
  EXPECT_TRUE(network[0]->as<torch::nn::LinearImpl>()->is_training());
  EXPECT_FALSE(network[1]->as<torch::nn::BatchNorm1dImpl>()->is_training());
}

}  // namespace
}  // namespace stages
