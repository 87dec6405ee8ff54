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

/// Connects a layer that normalises by the statistics of a batch (BatchNorm) with the same layer on
/// the other ranks, each of which computes a share of the batch. All of them call the same
/// functions in the same order, forward and backward, within the work of a RankGroup::together().
/// If memory runs out on one rank, all throw c10::OutOfMemoryError. A dry run has no other rank: it
/// allocates the same memory.
class RankStatistics final : public torch::CustomClassHolder {
 public:
  /// `counts`: as in Share. `units`: of the whole batch. `is_declared`: the network is known to
  /// have such layers; otherwise join_moments() refuses them. Borrows the group.
  RankStatistics(const runner::RankOfRun& ranks, bool counts, std::int64_t units,
                 bool is_declared = true);

  /// The units of the whole batch.
  std::int64_t units() const { return units_; }
  bool is_declared() const { return is_declared_; }
  /// Replaces the moments of this rank's numbers by those of the numbers of all ranks: `moments`
  /// (2, channels), contiguous float64, holds the mean of each channel and the sum of the squared
  /// distances from it, of `count` numbers. Returns how many they are on all ranks. All ranks get
  /// the same bits (Chan, Golub and LeVeque, 1979). Throws runner::StageError if the network was
  /// not known to have such layers.
  double join_moments(const at::Tensor& moments, double count) const;
  /// Throws what join_moments() has thrown, if it has: code in Python makes another exception of
  /// it.
  void refuse_if_asked() const;
  /// Replaces a layer's sums over the gradients of this rank's numbers, contiguous float64, by
  /// those over the numbers of all ranks. On a rank whose share does not count they become zeros,
  /// since the batch does not depend on its numbers.
  void sum_slopes(const at::Tensor& sums) const;

 private:
  const runner::RankOfRun ranks_;
  const bool counts_;
  const std::int64_t units_;
  const bool is_declared_;
  mutable bool was_asked_ = false;  // for the moments of a layer
};

/// Shared with the backward pass.
using RankStatisticsPtr = c10::intrusive_ptr<RankStatistics>;

/// Keeps for a layer's backward pass what it shares its statistics with, and what join_moments()
/// returned.
void keep_ranks(torch::autograd::AutogradContext& context, const RankStatisticsPtr& ranks,
                double count);
/// What keep_ranks() kept; `ranks` is null if it was not called.
struct KeptRanks {
  RankStatisticsPtr ranks;
  double count = 0;
};
KeptRanks kept_ranks(const torch::autograd::AutogradContext& context);

/// The statistics that the innermost ScopedRankStatistics of this thread shares; null if there is
/// none, and a batch is that of one process.
RankStatisticsPtr current_rank_statistics();

/// While it lives, layers that normalise by the statistics of a batch take them over all ranks, in
/// forward passes of this thread and their backward passes. So does torch's batch_norm wherever it
/// is called from, Python included:
///
///   const ScopedRankStatistics statistics(ranks, share.counts, batch.units());
///   group.together([&] { compute_gradients(network, share_of_batch); });
class [[nodiscard]] ScopedRankStatistics {
 public:
  /// As of RankStatistics.
  ScopedRankStatistics(const runner::RankOfRun& ranks, bool counts, std::int64_t units,
                       bool is_declared = true);
  ~ScopedRankStatistics();
  ScopedRankStatistics(const ScopedRankStatistics&) = delete;
  ScopedRankStatistics& operator=(const ScopedRankStatistics&) = delete;

 private:
  const RankStatisticsPtr before_;
};

/// While it lives, nothing is shared, as if there were no ScopedRankStatistics.
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
