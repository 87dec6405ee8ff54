#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "runner/shared/stage/run_context.h"

namespace torch::nn {
class Module;
}

namespace stages {

class CollectingLayer;

/// Joins the running statistics of ranks that each normalize their own groups of a batch:
///
///   const JoinedStatistics statistics(network, ranks, share.counts);
///   for (const Batch& group : groups_of_share) compute(network, group);
///   statistics.join();
///
/// Afterward, all ranks have the running statistics of a process that has seen all groups in order,
/// except for rounding.
class JoinedStatistics {
 public:
  /// Remembers the current statistics, which must be the same on all ranks. `counts` is
  /// Share::counts. The network and the group are borrowed.
  JoinedStatistics(const torch::nn::Module& network, const runner::RankOfRun& ranks, bool counts);

  /// All ranks must call this, within the work of a RankGroup::together(). A dry run allocates the
  /// same memory.
  void join() const;

 private:
  struct Layer {
    CollectingLayer* layer;
    std::int64_t batches;
    at::Tensor statistics;  // float64
  };
  at::Tensor batches_of_ranks() const;

  const runner::RankOfRun ranks_;
  const bool counts_;
  std::vector<Layer> layers_;
};

}  // namespace stages
