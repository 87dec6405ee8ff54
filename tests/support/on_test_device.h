#pragma once

#include <memory>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "tests/support/test_device.h"

/// The options of tensors on test_device().
inline at::TensorOptions here() { return at::device(at::Device(test_device())); }

/// Moves a network to test_device().
template <typename Network>
std::shared_ptr<Network> on_test_device(std::shared_ptr<Network> network) {
  network->to(at::Device(test_device()));
  return network;
}
