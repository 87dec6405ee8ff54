#pragma once

#include <filesystem>

namespace torch::nn {
class Module;
}
namespace runner {
class RunContext;
}

namespace stages {

/// Initializes `network` with the weights in `path`: a safetensors file, a checkpoint's folder, a
/// folder of checkpoints, a node's folder, or the folder of a run with one training stage. If there
/// are several checkpoints, uses the best one or, if none was validated, the latest. Loads only
/// weights. Names and shapes must exactly match those of the network. If the network is FromOrigin,
/// weights that an earlier training run on the same origin left frozen may be missing, as in LP-FT
/// (Kumar et al. 2022, arXiv:2202.10054): they keep their values. Does nothing if the context is
/// resuming a run that has already saved. Throws runner::StageError at /warm_start:
/// kMissingWeights, kDamagedWeights, or kOptionConflict with everything that does not match.
void warm_start(torch::nn::Module& network, const std::filesystem::path& path,
                runner::RunContext& context);

/// Throws what warm_start() would throw. The weights of `network` may be on the Meta device.
void check_warm_start(const torch::nn::Module& network, const std::filesystem::path& path,
                      runner::RunContext& context);

}  // namespace stages
