#pragma once

#include <memory>
#include <set>
#include <string>
#include <utility>

namespace torch::nn {
class Module;
}

namespace stages {

/// While this object lives, networks that this thread builds have only a rank's own weights, so
/// that no rank ever needs memory for a whole network (see Sharding):
///
///   const ScopedShardedBuild shard({"layers.0.fc1.weight", "layers.1.fc1.weight"});
///   const auto network = model.build(data, seed);  // Model::builds_in_shards()
///
/// A model builds its blocks with make_block(), which frees each block's weights before the next
/// block is built, and then calls allocate_own_weights(). Whatever assigns values to weights skips
/// those without memory (tensor_memory.h). Each value is the same as in a whole network.
class [[nodiscard]] ScopedShardedBuild {
 public:
  /// `elsewhere` are the names of the parameters that only other ranks have.
  explicit ScopedShardedBuild(std::set<std::string> elsewhere);
  ~ScopedShardedBuild();
  ScopedShardedBuild(const ScopedShardedBuild&) = delete;
  ScopedShardedBuild& operator=(const ScopedShardedBuild&) = delete;

 private:
  const std::set<std::string> elsewhere_;
  const ScopedShardedBuild* const before_;
  friend void free_in_sharded_build(const torch::nn::Module& block);
  friend void allocate_own_weights(const torch::nn::Module& network);
};

/// While this object lives, networks that this thread builds are whole.
class [[nodiscard]] ScopedWholeBuild {
 public:
  ScopedWholeBuild();
  ~ScopedWholeBuild();
  ScopedWholeBuild(const ScopedWholeBuild&) = delete;
  ScopedWholeBuild& operator=(const ScopedWholeBuild&) = delete;

 private:
  const ScopedShardedBuild* const before_;
};

/// Within a ScopedShardedBuild, frees the memory of a block's weights, which have no values yet.
void free_in_sharded_build(const torch::nn::Module& block);

/// Returns a new block. Its weights have no values yet.
template <typename Block, typename... Arguments>
std::shared_ptr<Block> make_block(Arguments&&... arguments) {
  auto block = std::make_shared<Block>(std::forward<Arguments>(arguments)...);
  free_in_sharded_build(*block);
  return block;
}

/// Within a ScopedShardedBuild, takes a network that has all of its modules but no values yet,
/// allocates this rank's weights, and frees the others.
void allocate_own_weights(const torch::nn::Module& network);

}  // namespace stages
