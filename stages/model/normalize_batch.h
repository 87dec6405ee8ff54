#pragma once

#include <ATen/core/Tensor.h>

namespace stages {

/// What normalize_batch() uses beside the maps; all (channels), float32.
struct BatchNormTensors {
  at::Tensor weight, bias;
  at::Tensor running_mean,
      running_var;  ///< moved by kBatchNormMomentum towards the batch's; undefined: nothing is kept
};

constexpr double kBatchNormMomentum = 0.1, kBatchNormEpsilon = 1e-5;

/// Whether normalize_batch() takes such maps: (n, channels, h, w) of float32 on a CPU that lie
/// pixel by pixel, more than one number a channel.
bool can_normalize_batch(const at::Tensor& maps, const at::Tensor& weight);

/// Torch's batch_norm by the statistics of the batch, and its relu after it where `has_relu`: what
/// torch reads and writes in fourteen passes over memory, forward and backward, takes eight here
/// (Chan, Golub and LeVeque, 1979, for the statistics), and the sums do not depend on the threads.
/// The maps are kept for the backward pass, and not the result. A gradient of the gradient is
/// refused with std::logic_error.
at::Tensor normalize_batch(const at::Tensor& maps, const BatchNormTensors& tensors, bool has_relu);

}  // namespace stages
