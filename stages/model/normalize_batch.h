#pragma once

#include <ATen/core/Tensor.h>

#include "stages/ranks/rank_statistics.h"

namespace stages {

constexpr double kBatchNormMomentum = 0.1, kBatchNormEpsilon = 1e-5;

/// The tensors that normalize_batch() uses in addition to the maps. All are (channels), float32.
struct BatchNormTensors {
  at::Tensor weight, bias;
  at::Tensor running_mean, running_var;  ///< updated with the momentum; undefined: not tracked
  double momentum = kBatchNormMomentum;  ///< the weight of the batch in the running statistics
};

/// True if normalize_batch() supports these maps: (n, channels, h, w), float32, on a CPU,
/// channels_last, with more than one value per channel.
bool can_normalize_batch(const at::Tensor& maps, const at::Tensor& weight);

/// Computes torch's batch_norm with the batch statistics, followed by ReLU if `has_relu`. Forward
/// and backward need eight passes over memory, whereas torch needs fourteen; the statistics are
/// computed as in Chan, Golub and LeVeque (1979). The sums do not depend on the number of threads.
/// The maps are saved for the backward pass, but not the result. Double backward throws
/// std::logic_error. With `ranks`, the statistics are computed over the batches of all ranks.
at::Tensor normalize_batch(const at::Tensor& maps, const BatchNormTensors& tensors, bool has_relu,
                           const RankStatisticsPtr& ranks = {});

}  // namespace stages
