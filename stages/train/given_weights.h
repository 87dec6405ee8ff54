#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "stages/tensor/named_tensors.h"
#include "stages/weights/safetensors.h"

namespace torch::nn {
class Module;
}
namespace runner {
class RunContext;
}

namespace stages {

/// Weights saved by an earlier training run.
struct GivenWeights {
  NamedTensors weights;
  std::filesystem::path file;         ///< their safetensors file
  std::filesystem::path folder = {};  ///< the checkpoint's folder; empty: not a checkpoint
  std::string base = {};  ///< identifies the frozen weights they build on; empty: none or unknown
  std::map<std::string, std::string> about = {};  ///< TrainingState::about; empty: unknown
};

// These functions throw runner::StageError without a location, which the caller adds.

/// Reads the weights in `path`: a safetensors file, a checkpoint's folder, a folder of checkpoints,
/// a node's folder, or the folder of a run with one training stage. If there are several
/// checkpoints, uses the best one or, without validation, the latest. Error messages name `option`,
/// the option with the path. Throws kMissingWeights or kDamagedWeights.
GivenWeights read_given_weights(const std::filesystem::path& path, const std::string& option,
                                WeightContents contents = WeightContents::kNumbers);

/// Completes weights that were trained on top of frozen ones, such as a linear probe's head: takes
/// the frozen weights from `network`. Does nothing if none are missing. Throws kOptionConflict if
/// they were trained on different frozen weights.
void complete(const torch::nn::Module& network, GivenWeights& given,
              const std::filesystem::path& path, runner::RunContext& context);

/// Throws kOptionConflict if `given`, from `path`, differs from the network's `own` weights in
/// names or shapes; the error lists all differences.
void refuse_misfits(const NamedTensors& own, const NamedTensors& given,
                    const std::filesystem::path& path);

}  // namespace stages
