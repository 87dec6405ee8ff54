#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "stages/tensor/named_tensors.h"

namespace stages {

/// Keeps fp16 gradients from underflowing. The loss is multiplied by a scale and the gradients are
/// divided by it. If the gradients overflow, the step is skipped and the scale is reduced. The
/// rule, its constants and its kernels are the same as in torch.amp.GradScaler. One scale applies
/// to a whole batch, however it is split.
///
///   compute the gradient of loss * scaler.scale() for every micro-batch
///   const at::Tensor overflow = scaler.unscale(gradients);
///   step the optimizer, which does nothing if overflow is 1
///   scaler.update(overflow);
class GradScaler {
 public:
  struct Options {
    double initial_scale = 65536;
    double growth_factor = 2;     ///< applied after growth_interval steps in a row without overflow
    double backoff_factor = 0.5;  ///< after an overflow
    std::int64_t growth_interval = 2000;
  };

  GradScaler(Options options, at::Device device);

  /// A float32 scalar on the device.
  const at::Tensor& scale() const { return scale_; }

  /// Divides the gradients by the scale, in place. Returns 1 if any of them is not finite,
  /// otherwise 0, as a float32 scalar on the device; the host need not wait for it. All gradients
  /// must be on one device.
  at::Tensor unscale(const std::vector<at::Tensor>& gradients) const;

  /// Grows or shrinks the scale after a step; allocates nothing.
  void update(const at::Tensor& overflow);

  /// Returns "scale" and "growth_tracker", all state needed to continue as if never interrupted.
  /// Shared, not copied.
  NamedTensors state() const;
  /// Loads a saved state. Throws std::invalid_argument if `state` is not the state of a scaler.
  void load_state(const NamedTensors& state);

 private:
  const Options options_;
  at::Tensor scale_;           // float32
  at::Tensor growth_tracker_;  // int32: steps in a row without overflow
};

}  // namespace stages
