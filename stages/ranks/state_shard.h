#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stages {

/// The part of an optimizer's state that a rank keeps: that of whole parameters, as
/// torch.distributed.optim.ZeroRedundancyOptimizer divides it (stage 1 of Rajbhandari, Rasley,
/// Ruwase and He, "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", SC 2020).
struct StateShard {
  int rank = 0;
  std::vector<int> owners =
      {};  ///< the rank that keeps each parameter's; empty: this one keeps all

  bool is_whole() const { return owners.empty(); }
  bool keeps(std::size_t parameter) const { return is_whole() || owners[parameter] == rank; }
};

/// Divides parameters of so many bytes among the ranks, about evenly: the largest first, each to
/// the rank that has least. The first rank has most.
std::vector<int> owners_of(const std::vector<std::int64_t>& bytes, int ranks);

}  // namespace stages
