#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "stages/random/generator_state.h"

namespace torch::nn {
class Module;
}

namespace stages {

/// What computing a step may spoil, as it was before: the states of torch's generators, the network's buffers (the
/// running statistics of BatchNorm). Before a step there are no gradients.
///
///   const StepSnapshot before(network, device);
///   try { compute(); } catch (...) { before.restore(); throw; }
///
/// The network must outlive it and keep its buffers.
class StepSnapshot {
 public:
  StepSnapshot(torch::nn::Module& network, at::Device device);
  /// Puts all back, and drops the gradients.
  void restore() const;
  /// What the states of the generators take of the CPU's memory.
  std::int64_t generator_bytes() const;

 private:
  torch::nn::Module* network_;
  GeneratorStates generators_;
  std::vector<std::pair<at::Tensor, at::Tensor>> buffers_;  // the network's own, and its copy
};

}  // namespace stages
