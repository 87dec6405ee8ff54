#pragma once

#include <optional>

#include <ATen/core/Tensor.h>

#include "stages/ranks/rank_statistics.h"

namespace stages {

/// PyTorch's batch_norm for maps (n, channels, …) with the statistics of the whole batch over all
/// ranks, like torch.nn.SyncBatchNorm. Sums are computed in float32, or in float64 for float64
/// input, and combined in float64. Accepts any floating-point type and layout; the other tensors
/// have shape (channels), as in PyTorch. The gradients of weight and bias cover only the samples of
/// this rank; their sum over the ranks is the gradient for the batch. Double backward throws
/// std::logic_error.
at::Tensor batch_norm_over_ranks(const at::Tensor& maps, const std::optional<at::Tensor>& weight,
                                 const std::optional<at::Tensor>& bias,
                                 const std::optional<at::Tensor>& running_mean,
                                 const std::optional<at::Tensor>& running_var, double momentum,
                                 double epsilon, const RankStatisticsPtr& ranks);

/// Replaces PyTorch's batch_norm from now on: in training mode and within a ScopedRankStatistics,
/// it calls batch_norm_over_ranks(). instance_norm, which calls batch_norm, is not affected. In a
/// network not known to have BatchNorm, an input with a first dimension of 1, such as a weight to
/// be normalized, is passed to PyTorch instead of causing an error.
void take_over_batch_norm();

}  // namespace stages
