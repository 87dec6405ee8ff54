#pragma once

#include <c10/core/Device.h>
#include <c10/core/GradMode.h>

#include "stages/numerics/numerics.h"
#include "stages/numerics/recomputable_module.h"
#include "stages/tensor/batch.h"
#include "stages/tensor/step_phase.h"

namespace stages {

/// While it lives, a GPU may (or may not) multiply float32 numbers by their 10 leading mantissa
/// bits, as TensorFloat-32, in matrix products and in cuDNN; LibTorch allows it in cuDNN by
/// default. It applies to the whole process; the previous setting returns at the end. It has no
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

/// A network that computes as `numerics` says while this lives: in the layout, each module in its
/// number format, products in TF32 or not. All code that runs a network uses one, so that every
/// option of a memory policy is obeyed everywhere:
///
///   const PreparedNetwork prepared(network, numerics, device);
///   const ScopedInference inference(prepared);
///   const NamedTensors outputs = model.forward(network, prepared.placed(batch).tensors());
///
/// The network is already on the device; it must outlive this and keep its modules. It keeps the
/// layout afterwards.
class [[nodiscard]] PreparedNetwork {
 public:
  PreparedNetwork(torch::nn::Module& network, const Numerics& numerics, c10::Device device);

  torch::nn::Module& module() const { return network_; }
  /// The format of all modules without one of their own.
  Precision precision() const { return numerics_.precision.base; }
  c10::Device device() const { return device_; }
  /// The batch on the network's device and in its layout.
  Batch placed(const Batch& batch) const;

 private:
  torch::nn::Module& network_;
  const Numerics numerics_;
  const c10::Device device_;
  const ScopedTf32 tf32_;
  const ScopedPrecisionMap modules_;
};

/// While it lives, a prepared network runs without an autograd graph, in eval mode and in its
/// number formats. Weights must not change meanwhile. Each module gets its own mode back.
class [[nodiscard]] ScopedInference {
 public:
  explicit ScopedInference(const PreparedNetwork& network);

 private:
  const ScopedEval eval_;
  const c10::NoGradGuard no_graph_;
  const ScopedPrecision precision_;
};

}  // namespace stages
