#pragma once

#include <ATen/core/Tensor.h>

#include "stages/ranks/rank_statistics.h"

namespace stages {

/// What normalize_batch() uses in addition to the maps; all (channels), float32.
struct BatchNormTensors {
  at::Tensor weight, bias;
  at::Tensor running_mean,
      running_var;  ///< moved by kBatchNormMomentum towards the batch's; undefined: not tracked
};

constexpr double kBatchNormMomentum = 0.1, kBatchNormEpsilon = 1e-5;

/// Whether normalize_batch() supports such maps: (n, channels, h, w) of float32 on a CPU,
/// channels_last, more than one number per channel.
bool can_normalize_batch(const at::Tensor& maps, const at::Tensor& weight);

/// Torch's batch_norm by the statistics of the batch, followed by relu if `has_relu`. It takes
/// eight passes over memory, forward and backward, where torch takes fourteen (Chan, Golub and
/// LeVeque, 1979, for the statistics), and the sums do not depend on the number of threads. The
/// maps are kept for the backward pass, the result is not. A gradient of the gradient is refused
/// with std::logic_error. With `ranks`, the batch is that of all of them.
at::Tensor normalize_batch(const at::Tensor& maps, const BatchNormTensors& tensors, bool has_relu,
                           const RankStatisticsPtr& ranks = {});

}  // namespace stages
