#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "runner/shared/stage/run_context.h"

namespace stages {

/// The most bytes of gradients that are summed at once, as in DistributedDataParallel.
inline constexpr std::int64_t kBucketBytes = 25 << 20;

/// Sums the gradients of `parameters` over all ranks. A parameter that has one on any rank has one
/// on all of them afterwards. A dry run has no other rank: it allocates the same memory.
void sum_gradients(const std::vector<at::Tensor>& parameters, const runner::RankOfRun& ranks);

}  // namespace stages
