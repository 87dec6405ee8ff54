#pragma once

#include <c10/core/Device.h>
#include <c10/core/GradMode.h>

#include "stages/numerics/numerics.h"
#include "stages/numerics/recomputable_module.h"
#include "stages/tensor/batch.h"
#include "stages/tensor/step_phase.h"

namespace stages {

/// While this object lives, it allows or forbids TensorFloat-32 on GPUs. With TF32, float32 matrix
/// products and cuDNN use only the 10 leading mantissa bits. LibTorch allows TF32 in cuDNN by
/// default. Applies to the whole process; the destructor restores the previous setting. Has no
/// effect on a CPU.
class [[nodiscard]] ScopedTf32 {
 public:
  explicit ScopedTf32(bool allow);
  ~ScopedTf32();
  ScopedTf32(const ScopedTf32&) = delete;
  ScopedTf32& operator=(const ScopedTf32&) = delete;

 private:
  const bool products_, convolutions_;
};

/// A network that follows `numerics` while this object lives: memory layout, number format of each
/// module, and TF32 on or off. All code that runs a network uses a PreparedNetwork, so every option
/// of a memory policy takes effect everywhere:
///
///   const PreparedNetwork prepared(network, numerics, device);
///   const ScopedInference inference(prepared);
///   const NamedTensors outputs = model.forward(network, prepared.placed(batch).tensors());
///
/// The network must already be on the device, outlive this object and keep its modules. It keeps
/// the layout afterward.
class [[nodiscard]] PreparedNetwork {
 public:
  PreparedNetwork(torch::nn::Module& network, const Numerics& numerics, c10::Device device);

  torch::nn::Module& module() const { return network_; }
  /// The number format of all modules not selected by a rule.
  Precision precision() const { return numerics_.precision.base; }
  c10::Device device() const { return device_; }
  /// Returns the batch on the network's device and in its layout.
  Batch placed(const Batch& batch) const;

 private:
  torch::nn::Module& network_;
  const Numerics numerics_;
  const c10::Device device_;
  const ScopedTf32 tf32_;
  const ScopedPrecisionMap modules_;
};

/// While this object lives, a prepared network runs in eval mode, without an autograd graph and in
/// its dtypes. Weights must not change during that time. The destructor restores the mode of each
/// module.
class [[nodiscard]] ScopedInference {
 public:
  explicit ScopedInference(const PreparedNetwork& network);

 private:
  const ScopedEval eval_;
  const c10::NoGradGuard no_graph_;
  const ScopedPrecision precision_;
};

}  // namespace stages
