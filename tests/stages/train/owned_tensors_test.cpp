#include "stages/train/owned_tensors.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

namespace stages {
namespace {

struct Net : torch::nn::Module {
  Net() {
    weight = register_parameter("weight", torch::ones({3}));
    tied = register_parameter("tied", weight.view({3, 1}).detach());
    mean = register_buffer("mean", torch::zeros({5}));
  }
  at::Tensor weight, tied, mean;
};

TEST(OwnedTensors, EachMemoryHasOneOwner) {
  Net net;
  (net.weight * 2).sum().backward();
  const NamedTensors state = {{"weight.momentum", torch::zeros({3})}};
  std::vector<std::string> found;
  const auto owned = owned_tensors(net, state);
  for (const OwnedTensor& one : owned) found.push_back(one.owner + " " + one.name);
  EXPECT_THAT(found, testing::ElementsAre("parameter weight", "buffer mean", "gradient weight",
                                          "optimizer_state weight.momentum"));
  EXPECT_THAT(bytes_by_owner(owned, 100), testing::ElementsAre(12, 12, 12, 20, 44));
}

TEST(OwnedTensors, WhatIsOwnedCanBeOlderThanTheCount) {
  EXPECT_THAT(bytes_by_owner(owned_tensors(Net(), {}), 10), testing::ElementsAre(12, 0, 0, 20, 0));
}

}  // namespace
}  // namespace stages
