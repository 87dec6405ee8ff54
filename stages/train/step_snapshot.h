#pragma once

#include <cstdint>
#include <optional>
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
///   StepSnapshot before(network, device);
///   try { compute(); } catch (...) { before.restore(); throw; }
///   before.save();  // for the next step, in the same memory
///
/// The network must outlive this object and keep its buffers.
class StepSnapshot {
 public:
  /// Saves the state of a network on `device`.
  StepSnapshot(torch::nn::Module& network, at::Device device);
  /// Saves the state again. `failed` is a float32 scalar on the device; if it is 1, the copies of
  /// the buffers stay as they are. Does not wait for a GPU. If this throws, no state is saved.
  void save(const std::optional<at::Tensor>& failed = {});
  /// Returns the saved states of the random number generators.
  const GeneratorStates& generators() const { return generators_; }
  /// Restores everything and drops the gradients.
  void restore() const { restore(generators_); }
  /// Restores the generators to states other than the latest saved ones.
  void restore(const GeneratorStates& generators) const;
  /// Returns the bytes of CPU memory that the generators' states use.
  std::int64_t generator_bytes() const;

 private:
  torch::nn::Module* network_;
  at::Device device_;
  GeneratorStates generators_;
  std::vector<std::pair<at::Tensor, at::Tensor>> buffers_;  // the network's buffer and its copy
};

}  // namespace stages
