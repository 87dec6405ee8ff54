#pragma once

#include <filesystem>

namespace torch::nn {
class Module;
}
namespace runner {
class RunContext;
}

namespace stages {

/// Gives `network` the weights in `path` to begin with: a safetensors file, a checkpoint's folder,
/// a training's checkpoints, its node's folder, or the folder of a run with one training, of which
/// the best is taken, or without validation the latest. Nothing else of that training comes along.
/// Names and shapes must be exactly the network's. Does nothing where the context is resuming a
/// training that has saved already. Throws runner::StageError at /warm_start: kMissingWeights,
/// kDamagedWeights, or kOptionConflict with all that does not fit.
void warm_start(torch::nn::Module& network, const std::filesystem::path& path,
                runner::RunContext& context);

/// Throws what that would throw for such a network, whose weights may be on the Meta device.
void check_warm_start(const torch::nn::Module& network, const std::filesystem::path& path,
                      runner::RunContext& context);

}  // namespace stages
