#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/util/intrusive_ptr.h>

#include "runner/shared/stage/run_context.h"

namespace torch::autograd {
struct AutogradContext;
}

namespace stages {

/// Connects a layer that normalizes by batch statistics (BatchNorm) with the same layer on the
/// other ranks, each of which computes a share of the batch. All ranks must call the same functions
/// in the same order, forward and backward, within the work of a RankGroup::together(). If one rank
/// runs out of memory, all throw c10::OutOfMemoryError. A dry run, which has no other ranks,
/// allocates the same memory.
class RankStatistics final : public torch::CustomClassHolder {
 public:
  /// `counts` is Share::counts, and `units` is the number of units of the whole batch.
  /// `is_declared` is true if the network is known to have such layers; otherwise join_moments()
  /// rejects them. The group is borrowed.
  RankStatistics(const runner::RankOfRun& ranks, bool counts, std::int64_t units,
                 bool is_declared = true);

  /// Returns the number of units in the whole batch.
  std::int64_t units() const { return units_; }
  bool is_declared() const { return is_declared_; }
  /// Replaces the moments of this rank's values with the moments of all ranks' values. `moments`,
  /// (2, channels) contiguous float64, contains the mean of each channel and the sum of squared
  /// distances from it, for `count` values. Returns the number of values on all ranks. All ranks
  /// get bitwise the same result (Chan, Golub and LeVeque, 1979). Throws runner::StageError if the
  /// network was not known to have such layers.
  double join_moments(const at::Tensor& moments, double count) const;
  /// Rethrows the error of join_moments(), if any, because Python code may have turned it into
  /// another exception.
  void refuse_if_asked() const;
  /// Replaces a layer's sums over the gradients of this rank, contiguous float64, with the sums
  /// over all ranks. On a rank with a share that does not count, they become zeros, since the batch
  /// does not depend on its values.
  void sum_slopes(const at::Tensor& sums) const;

 private:
  const runner::RankOfRun ranks_;
  const bool counts_;
  const std::int64_t units_;
  const bool is_declared_;
  mutable bool was_asked_ = false;  // join_moments() was called
};

/// Shared with the backward pass.
using RankStatisticsPtr = c10::intrusive_ptr<RankStatistics>;

/// Stores, for a layer's backward pass, the object that shares its statistics and the result of
/// join_moments().
void keep_ranks(torch::autograd::AutogradContext& context, const RankStatisticsPtr& ranks,
                double count);
/// Returns what keep_ranks() stored; `ranks` is null if it was not called.
struct KeptRanks {
  RankStatisticsPtr ranks;
  double count = 0;
};
KeptRanks kept_ranks(const torch::autograd::AutogradContext& context);

/// Returns the statistics that this thread's innermost ScopedRankStatistics shares; null if there
/// is none, in which case a batch belongs to one process.
RankStatisticsPtr current_rank_statistics();

/// Within this scope, layers that normalize by batch statistics compute them over all ranks, in
/// forward passes of this thread and the corresponding backward passes. This applies to all calls
/// to PyTorch's batch_norm, including those from Python:
///
///   const ScopedRankStatistics statistics(ranks, share.counts, batch.units());
///   group.together([&] { compute_gradients(network, share_of_batch); });
class [[nodiscard]] ScopedRankStatistics {
 public:
  /// The arguments have the same meaning as in RankStatistics.
  ScopedRankStatistics(const runner::RankOfRun& ranks, bool counts, std::int64_t units,
                       bool is_declared = true);
  ~ScopedRankStatistics();
  ScopedRankStatistics(const ScopedRankStatistics&) = delete;
  ScopedRankStatistics& operator=(const ScopedRankStatistics&) = delete;

 private:
  const RankStatisticsPtr before_;
};

/// Within this scope, nothing is shared, as if there were no ScopedRankStatistics.
class [[nodiscard]] ScopedOwnStatistics {
 public:
  ScopedOwnStatistics();
  ~ScopedOwnStatistics();
  ScopedOwnStatistics(const ScopedOwnStatistics&) = delete;
  ScopedOwnStatistics& operator=(const ScopedOwnStatistics&) = delete;

 private:
  const RankStatisticsPtr before_;
};

}  // namespace stages
