#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "stages/random/generator_state.h"

namespace torch::nn {
class Module;
}

namespace stages {

/// Saves the state that computing a step may modify: torch's random number generators and the
/// network's buffers (the running statistics of BatchNorm). Gradients are not saved, since there
/// are none before a step.
///
///   const StepSnapshot before(network, device);
///   try { compute(); } catch (...) { before.restore(); throw; }
///
/// The network must outlive this object and keep its buffers.
class StepSnapshot {
 public:
  StepSnapshot(torch::nn::Module& network, at::Device device);
  /// Restores everything and drops the gradients.
  void restore() const;
  /// Returns the bytes of CPU memory that the generators' states use.
  std::int64_t generator_bytes() const;

 private:
  torch::nn::Module* network_;
  GeneratorStates generators_;
  std::vector<std::pair<at::Tensor, at::Tensor>> buffers_;  // the network's buffer and its copy
};

}  // namespace stages
