#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "runner/shared/stage/run_context.h"

namespace stages {

class RankGroup;

/// Sums the gradients of a step over all ranks:
///
///   GradientSum sum(ranks);  // one for all steps
///   sum.over_ranks(parameters, [&] { return numbers_after_backward(); });
///
/// The ranks exchange one message per step that says whether each has computed its part and, if
/// they are small enough (RankGroup::most_along()), contains the small gradients. The others
/// follow. In the first step, and again whenever the set changes on a rank, the ranks first agree
/// on which parameters have gradients.
class GradientSum {
 public:
  explicit GradientSum(const runner::RankOfRun& ranks) : ranks_(ranks) {}

  const runner::RankOfRun& ranks() const { return ranks_; }

  /// Call this in a dry run for a GPU, where gradients are not sent along.
  void stay_on_device() { stays_on_device_ = true; }

  /// What a rank has computed.
  struct OwnPart {
    at::Tensor numbers = {};  ///< contiguous, to be summed as well; may be undefined
    /// True if nothing in the rest of the step can run out of memory on this rank.
    bool is_rest_safe = false;
  };
  /// Runs `compute` on all ranks, like together(). `compute` adds to the gradients of `parameters`.
  /// The sums replace the values in place. Afterward, a parameter with a gradient on any rank has
  /// one on all ranks. `meets` says, the same on all ranks, whether `compute` may call functions of
  /// RankGroup. Returns whether the rest of the step is safe on all ranks. A dry run, which has no
  /// other ranks, allocates the same memory. With a single rank, only `compute` runs.
  bool over_ranks(const std::vector<at::Tensor>& parameters, bool meets,
                  const std::function<OwnPart()>& compute);

 private:
  class Parts;
  /// What must be the same on all ranks before gradients are sent.
  struct Contents {
    std::vector<bool> present;  // the parameters with gradients on any rank
    std::int64_t numbers = 0;   // bytes
    bool operator==(const Contents&) const = default;
  };
  static Contents contents_of(const std::vector<at::Tensor>& parameters, const at::Tensor& numbers);

  const runner::RankOfRun ranks_;
  bool stays_on_device_ = false;
  std::optional<Contents> agreed_;  // nullopt before the first step
  std::int64_t along_ = 0;          // bytes that are sent along, once agreed
};

}  // namespace stages
