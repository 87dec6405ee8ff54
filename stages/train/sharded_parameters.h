#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "runner/shared/stage/run_context.h"
#include "stages/ranks/state_shard.h"

namespace torch::nn {
class Module;
}

namespace stages {

/// Returns the owners of `trained`, parameters of a network. Those in its blocks are distributed
/// separately from the others, so that the first rank gets the most of both.
StateShard shard_of_blocks(const torch::nn::Module& network, const std::vector<at::Tensor>& trained,
                           int rank, int ranks);

/// Returns those of `trained` that a ShardedParameters with this shard leaves to other ranks.
std::set<const c10::TensorImpl*> parameters_elsewhere(const torch::nn::Module& network,
                                                      const std::vector<at::Tensor>& trained,
                                                      const StateShard& shard);

/// Returns, by name, the rank that keeps each parameter in a network's blocks: for those in
/// `trained`, the owner in `shard`; the others are distributed evenly. Parameters that share memory
/// with others stay on all ranks.
std::map<std::string, int> owners_in_blocks(const torch::nn::Module& network,
                                            const std::vector<at::Tensor>& trained,
                                            const StateShard& shard, int ranks);

/// Keeps each parameter in the blocks of a network on one rank only (stage 3 of ZeRO, see
/// Sharding). A block has the values of its parameters while it runs, forward and backward:
///
///   ShardedParameters parameters(network, trained, shard, ranks);
///   {
///     const ScopedActivationCheckpointing recomputed(network, {.blocks = true});
///     compute gradients within RankGroup::together()
///   }
///   parameters.join();
///
/// Between runs, parameters of other ranks have no memory (tensor_memory.h). Before a block runs,
/// a rank allocates memory for all of its parameters, and the owners send the values; afterward, it
/// frees this memory. The ranks need not run the same blocks at the same time: all of them answer
/// while they wait for each other (RankGroup::answer_with()).
///
/// Parameters outside of blocks, and those that share memory with others, stay whole on all ranks.
/// Frozen parameters in blocks are sharded too. On the first rank, at any time, the parameters need
/// at least as much memory as on the others. A dry run, which has no other ranks, allocates the
/// same memory.
class ShardedParameters {
 public:
  /// Divides the parameters, which have equal values on all ranks, unless the network was built in
  /// shards (sharded_network.h). `shard` has the owners of `trained`, as returned by
  /// shard_of_blocks(). The network is borrowed.
  ShardedParameters(torch::nn::Module& network, const std::vector<at::Tensor>& trained,
                    const StateShard& shard, const runner::RankOfRun& ranks);
  /// Leaves the parameters without memory unless they are joined.
  ~ShardedParameters();
  ShardedParameters(const ShardedParameters&) = delete;
  ShardedParameters& operator=(const ShardedParameters&) = delete;

  /// Gives every rank all parameters again. All ranks must call this at the same point.
  void join();

  /// True if only one rank has the values of the parameter.
  bool keeps_apart(const at::Tensor& parameter) const;
  /// Returns the rank that has the values of the parameter `name`; nullopt if all ranks have them.
  std::optional<int> owner_of(std::string_view name) const;

 private:
  class Block;
  void answer(const std::vector<std::int64_t>& asked);

  const runner::RankOfRun ranks_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::set<const c10::TensorImpl*> apart_;  // the parameters that only one rank has
};

}  // namespace stages
