#pragma once

#include <utility>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "stages/tensor/batch.h"

namespace stages {

/// A small tensor that every step needs on the device of its batch, such as the weights of the
/// classes. A GPU gets it once. A copy in each step would cost time, and a CUDA graph cannot copy
/// from the host.
///
///   const DeviceConstant weights(torch::tensor({0.5, 2.0}));
///   loss = loss * weights.on(loss.device());
///
/// Must not be used by several threads at once.
class DeviceConstant {
 public:
  /// `on_host` is on the CPU, or undefined.
  explicit DeviceConstant(at::Tensor on_host) : on_host_(std::move(on_host)) {}

  bool defined() const { return on_host_.defined(); }
  const at::Tensor& on_host() const { return on_host_; }
  /// Returns the tensor on `device`, or an undefined tensor if `on_host` is undefined.
  at::Tensor on(at::Device device) const {
    if (!defined() || !device.is_cuda()) return defined() ? on_host_.to(device) : on_host_;
    if (!on_gpu_.defined() || on_gpu_.device() != device) on_gpu_ = send_to(device, on_host_);
    return on_gpu_;
  }

 private:
  at::Tensor on_host_;
  mutable at::Tensor on_gpu_;
};

}  // namespace stages
