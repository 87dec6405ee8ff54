#pragma once

#include <optional>

#include <ATen/core/Tensor.h>

#include "stages/ranks/rank_statistics.h"

namespace stages {

/// Torch's batch_norm of maps (n, channels, …) by the statistics of the batch of all ranks, as
/// torch.nn.SyncBatchNorm: sums are taken in float32, in float64 for float64, and joined in
/// float64. Any floating-point type and layout; the other tensors are (channels), as torch takes
/// them. The gradients of weight and bias are those of this rank's numbers alone; the ranks' sum is
/// that of the batch. A gradient of the gradient is refused with std::logic_error.
at::Tensor batch_norm_over_ranks(const at::Tensor& maps, const std::optional<at::Tensor>& weight,
                                 const std::optional<at::Tensor>& bias,
                                 const std::optional<at::Tensor>& running_mean,
                                 const std::optional<at::Tensor>& running_var, double momentum,
                                 double epsilon, const RankStatisticsPtr& ranks);

/// Once called, torch's batch_norm is batch_norm_over_ranks() within a ScopedRankStatistics, in
/// training; its instance_norm, which calls it, stays as it is. Normalising a weight, (1, outputs,
/// …), is no error where the network was not known to have BatchNorm.
void take_over_batch_norm();

}  // namespace stages
