#pragma once

#include <cstdint>
#include <optional>
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
/// The buffers of a type are copied together: the number of copies does not grow with that of the
/// layers.
///
/// The network must outlive this object and keep its buffers.
class StepSnapshot {
 public:
  /// Saves the state of a network on `device`.
  StepSnapshot(torch::nn::Module& network, at::Device device);
  /// Saves the state again. `failed` is a float32 scalar on the device; if it is 1, the copies of
  /// the buffers stay as they are. Does not wait for a GPU, unless a buffer is on the CPU. If this
  /// throws, no state is saved.
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
  /// A buffer and its values in one dimension.
  struct Values {
    at::Tensor buffer, row;
  };
  /// The buffers of one type on one device.
  struct Group {
    std::vector<at::Tensor> buffers;  // the network's
    std::vector<at::Tensor> rows;     // their elements in their memory; undefined if not contiguous
    std::vector<std::int64_t> counts;  // of elements
    at::Tensor copy;                   // the saved elements of all

    bool keeps(std::size_t i) const;
    bool is_current(std::size_t i) const;
    bool is_current() const;
    std::vector<at::Tensor> elements() const;
  };
  static std::vector<Group> grouped(const std::vector<Values>& values);
  void regroup();

  torch::nn::Module* network_;
  at::Device device_;
  GeneratorStates generators_;
  std::vector<Group> groups_;
};

}  // namespace stages
