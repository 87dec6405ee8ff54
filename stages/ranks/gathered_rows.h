#pragma once

#include <ATen/core/Tensor.h>

namespace stages {

class RankGroup;

/// Returns the rows of all ranks, in rank order, on the CPU. `own` is a tensor on the CPU, or
/// undefined on a rank without rows; undefined is returned if no rank has any. The rows of all
/// ranks have the same shape and type. Needs memory only for the result, unlike
/// RankGroup::gather().
at::Tensor gathered_rows(const at::Tensor& own, RankGroup& group);

}  // namespace stages
