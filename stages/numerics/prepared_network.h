#pragma once

#include <c10/core/Device.h>
#include <c10/core/GradMode.h>

#include "stages/numerics/numerics.h"
#include "stages/numerics/recomputable_module.h"
#include "stages/tensor/batch.h"
#include "stages/tensor/step_phase.h"

namespace stages {

/// While it lives, a GPU may (or may not) multiply float32 numbers by their 10 leading bits, as
/// TensorFloat-32, in matrix products and in cuDNN, which LibTorch lets do so by default. It holds
/// for the whole process; what held before comes back. A CPU takes no notice.
class [[nodiscard]] ScopedTf32 {
 public:
  explicit ScopedTf32(bool allow);
  ~ScopedTf32();
  ScopedTf32(const ScopedTf32&) = delete;
  ScopedTf32& operator=(const ScopedTf32&) = delete;

 private:
  const bool products_, convolutions_;
};

/// A network that computes as `numerics` say, for as long as this lives: laid out, each module in
/// its number format, its products in TF32 or not. Whoever runs a network runs it by one of these,
/// so that no option of a memory policy is obeyed in one place and forgotten in another:
///
///   const PreparedNetwork prepared(network, numerics, device);
///   const ScopedInference inference(prepared);
///   const NamedTensors outputs = model.forward(network, prepared.placed(batch).tensors());
///
/// The network is on the device already; it must outlive this and keep its modules. Its layout
/// stays afterwards.
class [[nodiscard]] PreparedNetwork {
 public:
  PreparedNetwork(torch::nn::Module& network, const Numerics& numerics, c10::Device device);

  torch::nn::Module& module() const { return network_; }
  /// The format of all modules that have none of their own.
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

/// While it lives, a prepared network is run without a graph, in eval mode and in its number
/// formats. It spans no change of a weight; each module gets its own mode back.
class [[nodiscard]] ScopedInference {
 public:
  explicit ScopedInference(const PreparedNetwork& network);

 private:
  const ScopedEval eval_;
  const c10::NoGradGuard no_graph_;
  const ScopedPrecision precision_;
};

}  // namespace stages
