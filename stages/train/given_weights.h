#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "stages/tensor/named_tensors.h"

namespace torch::nn {
class Module;
}
namespace runner {
class RunContext;
}

namespace stages {

/// Weights that an earlier training saved.
struct GivenWeights {
  NamedTensors weights;
  std::filesystem::path folder = {};  ///< the checkpoint's folder; empty: another file
  std::string base = {};  ///< identifies the frozen weights below them; empty: none, or unknown
  std::map<std::string, std::string> about = {};  ///< TrainingState::about; empty: unknown
};

// These functions throw runner::StageError without a place, which the caller adds.

/// Reads the weights in `path`: a safetensors file, a checkpoint's folder, a folder of checkpoints,
/// a node's folder, or the folder of a run with one training stage. Of several checkpoints, the
/// best is used or, without validation, the latest. Advice names the `option` that has the path.
/// Throws kMissingWeights or kDamagedWeights.
GivenWeights read_given_weights(const std::filesystem::path& path, const std::string& option);

/// Completes weights that were trained on the frozen weights that `network` starts with, such as a
/// linear probe's head: the others are the network's own. Does nothing if they are whole. Throws
/// kOptionConflict if those frozen weights were others.
void complete(const torch::nn::Module& network, GivenWeights& given,
              const std::filesystem::path& path, runner::RunContext& context);

/// Throws kOptionConflict with all names and shapes in which `given`, from `path`, differs from the
/// network's `own` weights.
void refuse_misfits(const NamedTensors& own, const NamedTensors& given,
                    const std::filesystem::path& path);

}  // namespace stages
