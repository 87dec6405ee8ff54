#pragma once

#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "runner/shared/stage/run_context.h"

namespace stages {

/// Sums the gradients of a step over all ranks:
///
///   GradientSum sum(ranks);  // one for all steps
///   sum.over_ranks(parameters, [&] { return numbers_after_backward(); });
///
/// The ranks wait for each other once before sending gradients. In the first step, and again
/// whenever the set changes on a rank, they agree on which parameters have gradients.
class GradientSum {
 public:
  explicit GradientSum(const runner::RankOfRun& ranks) : ranks_(ranks) {}

  const runner::RankOfRun& ranks() const { return ranks_; }

  /// Runs `compute` on all ranks, like together(). `compute` adds to the gradients of `parameters`,
  /// and returns an undefined tensor or a contiguous tensor on the CPU that is summed as well. The
  /// sums replace the values in place. Afterward, a parameter with a gradient on any rank has one
  /// on all ranks. A dry run, which has no other ranks, allocates the same memory. With a single
  /// rank, only `compute` runs.
  void over_ranks(const std::vector<at::Tensor>& parameters,
                  const std::function<at::Tensor()>& compute);

 private:
  const runner::RankOfRun ranks_;
  std::vector<bool> present_;  // the parameters with gradients on any rank; empty until agreed on
};

}  // namespace stages
