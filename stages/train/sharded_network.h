#pragma once

#include <functional>
#include <memory>

#include <c10/core/Device.h>

#include "runner/shared/stage/run_context.h"
#include "stages/artifact/model.h"
#include "stages/memory/policy.h"
#include "stages/train/trainer_options.h"

namespace stages {

/// True if each rank creates only its part of the network to train under `policy`.
bool is_built_in_shards(const Model& model, const MemoryPolicy& policy,
                        const runner::RankOfRun& ranks);

/// Returns the result of `build`, which calls model.build() or model.outline() for `data`. If
/// is_built_in_shards(), the network contains only the parameters that this rank keeps in memory
/// during training (see ShardedParameters).
std::shared_ptr<torch::nn::Module> built_for_rank(
    const Model& model, const DatasetDescription& data, const TrainerOptions& options,
    const MemoryPolicy& policy, const runner::RankOfRun& ranks,
    const std::function<std::shared_ptr<torch::nn::Module>()>& build);

/// Moves a network to a device; weights without memory have none there either.
void move_network(torch::nn::Module& network, c10::Device device);

}  // namespace stages
