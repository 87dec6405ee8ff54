#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace stages {

/// The part of an optimizer's state that a rank keeps. It covers whole parameters, as in
/// torch.distributed.optim.ZeroRedundancyOptimizer (stage 1 of Rajbhandari, Rasley, Ruwase and He,
/// "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", SC 2020).
struct StateShard {
  int rank = 0;
  std::vector<int> owners =
      {};  ///< the rank that keeps each parameter's state; empty: this rank keeps all

  bool is_whole() const { return owners.empty(); }
  bool keeps(std::size_t parameter) const { return is_whole() || owners[parameter] == rank; }
};

/// Distributes parameters of the given sizes in bytes roughly evenly among the ranks and returns
/// their owners. The largest come first, and each goes to the rank that has the fewest bytes. The
/// first rank gets the most.
std::vector<int> owners_of(const std::vector<std::int64_t>& bytes, int ranks);

/// Returns the part that `rank`, one of `ranks` ranks, stores.
StateShard shard_of(const std::vector<at::Tensor>& parameters, int rank, int ranks);

}  // namespace stages
