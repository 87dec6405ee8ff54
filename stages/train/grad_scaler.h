#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "stages/tensor/named_tensors.h"

namespace stages {

/// Keeps gradients that pass through fp16 from vanishing: the loss is multiplied by a scale, the gradients are divided
/// by it again, and a step whose gradients overflowed is skipped and followed by a smaller scale. The rule, its numbers
/// and its kernels are those of torch.amp.GradScaler; one scale holds for a whole logical batch, however it is cut.
///
///   the gradient of loss * scaler.scale(), of every micro-batch
///   const at::Tensor overflow = scaler.unscale(gradients);
///   the optimizer's step, told to do nothing where overflow is 1
///   scaler.update(overflow);
class GradScaler {
 public:
  struct Options {
    double initial_scale = 65536;
    double growth_factor = 2;     ///< after growth_interval steps in a row without overflow
    double backoff_factor = 0.5;  ///< after an overflow
    std::int64_t growth_interval = 2000;
  };

  GradScaler(Options options, at::Device device);

  /// A float32 scalar on the device.
  const at::Tensor& scale() const { return scale_; }

  /// Divides the gradients by the scale, in place; 1 if any of them is not finite, else 0: a float32 scalar on the
  /// device, for which the host need not wait. They may be on one device only.
  at::Tensor unscale(const std::vector<at::Tensor>& gradients) const;

  /// Grows or shrinks the scale after a step; allocates nothing.
  void update(const at::Tensor& overflow);

  /// "scale" and "growth_tracker": all that must be saved to continue as if never interrupted. Shared, not copied.
  NamedTensors state() const;
  /// Takes a saved state over. Throws std::invalid_argument if it is not one.
  void load_state(const NamedTensors& state);

 private:
  const Options options_;
  at::Tensor scale_;           // float32
  at::Tensor growth_tracker_;  // int32: steps in a row without overflow
};

}  // namespace stages
