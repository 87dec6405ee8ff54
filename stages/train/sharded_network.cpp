#include "stages/train/sharded_network.h"

#include <set>
#include <string>
#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "stages/numerics/sharded_build.h"
#include "stages/plan/memory_trace.h"
#include "stages/tensor/tensor_memory.h"
#include "stages/train/layer_decay.h"
#include "stages/train/sharded_parameters.h"

namespace stages {
namespace {

/// Returns the names of the parameters that only other ranks keep.
std::set<std::string> names_elsewhere(const Model& model, const DatasetDescription& data,
                                      const TrainerOptions& options,
                                      const runner::RankOfRun& ranks) {
  const ScopedUntraced outline_only;
  const auto outline = model.outline(data);
  std::vector<at::Tensor> trained;
  for (const ParameterGroup& group : groups_of_training(*outline, options)) {
    for (const auto& [name, parameter] : group.parameters) trained.push_back(parameter);
  }
  const StateShard shard = shard_of_blocks(*outline, trained, ranks.rank, ranks.size);
  std::set<std::string> elsewhere;
  for (const auto& [name, owner] : owners_in_blocks(*outline, trained, shard, ranks.size)) {
    if (owner != ranks.rank) elsewhere.insert(name);
  }
  return elsewhere;
}

}  // namespace

bool is_built_in_shards(const Model& model, const MemoryPolicy& policy,
                        const runner::RankOfRun& ranks) {
  return policy.sharding == Sharding::kParameters && ranks.size > 1 && model.builds_in_shards();
}

std::shared_ptr<torch::nn::Module> built_for_rank(
    const Model& model, const DatasetDescription& data, const TrainerOptions& options,
    const MemoryPolicy& policy, const runner::RankOfRun& ranks,
    const std::function<std::shared_ptr<torch::nn::Module>()>& build) {
  if (!is_built_in_shards(model, policy, ranks)) return build();
  const ScopedShardedBuild shard(names_elsewhere(model, data, options, ranks));
  return build();
}

void move_network(torch::nn::Module& network, c10::Device device) {
  for (at::Tensor& parameter : network.parameters()) {
    if (!has_memory(parameter) && parameter.device() != device)
      parameter.set_data(without_memory(parameter, device));
  }
  network.to(device);
}

}  // namespace stages
