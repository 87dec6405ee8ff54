#pragma once

#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "runner/shared/stage/run_context.h"

namespace stages {

/// Sums over all ranks what each of them has computed in a step:
///
///   GradientSum sum(ranks);  // of a training
///   sum.over_ranks(parameters, [&] { return numbers_after_backward(); });
///
/// The ranks wait for each other once before the gradients are sent. Which parameters have
/// gradients is agreed on in the first step, and again when that changes on a rank.
class GradientSum {
 public:
  explicit GradientSum(const runner::RankOfRun& ranks) : ranks_(ranks) {}

  const runner::RankOfRun& ranks() const { return ranks_; }

  /// Runs `compute` on all ranks, as together() does. It adds to the gradients of `parameters`, and
  /// returns a contiguous tensor on the CPU that is summed with them, or none. The sums are taken
  /// in place. A parameter that has a gradient on any rank has one on all of them afterwards. A dry
  /// run has no other rank: it allocates the same memory. One rank alone just computes.
  void over_ranks(const std::vector<at::Tensor>& parameters,
                  const std::function<at::Tensor()>& compute);

 private:
  const runner::RankOfRun ranks_;
  std::vector<bool> present_;  // the parameters with gradients on all ranks; empty: not agreed on
};

}  // namespace stages
