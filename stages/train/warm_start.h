#pragma once

#include <filesystem>

namespace torch::nn {
class Module;
}
namespace runner {
class RunContext;
}

namespace stages {

/// Initializes `network` with the weights in `path`: a safetensors file, a checkpoint folder, a
/// training's checkpoints, its node's folder, or the folder of a run with one training. Of a
/// training, the best checkpoint is used, or without validation the latest. Nothing else of that
/// training is loaded. Names and shapes must exactly match the network's. Does nothing if the
/// context is resuming a training that has already saved. Throws runner::StageError at /warm_start:
/// kMissingWeights, kDamagedWeights, or kOptionConflict with everything that does not fit.
void warm_start(torch::nn::Module& network, const std::filesystem::path& path,
                runner::RunContext& context);

/// Throws what warm_start() would throw for such a network, whose weights may be on the Meta
/// device.
void check_warm_start(const torch::nn::Module& network, const std::filesystem::path& path,
                      runner::RunContext& context);

}  // namespace stages
