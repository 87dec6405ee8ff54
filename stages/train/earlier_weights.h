#pragma once

#include <optional>
#include <string>

#include "stages/checkpoint/checkpoints.h"
#include "stages/train/trainer.h"

namespace torch::nn {
class Module;
}

namespace stages {

struct TrainingState;

/// Throws runner::StageError, kChangedRun, where the frozen weights of a network (OnFrozenBase) are
/// not those that `state` was trained on.
void check_base(const torch::nn::Module& network, const TrainingState& state);

/// What an earlier run has trained, and the data that it was trained on (of size 0: it need not be
/// there any more).
struct EarlierWeights {
  FoundCheckpoint checkpoint;
  DatasetDescription data;
  std::string weights =
      {};  ///< "averaged" or "trained", of a training that averages them; empty: of any other
};

/// What NodeFacts::trained names; nullopt where this training is still to be done. Throws
/// runner::StageError: kNoCheckpoint, kDamagedWeights, kOptionConflict where an average is asked
/// for and none was kept; but where a training is to be reused that is said by
/// context.not_reused(), and nothing is found.
std::optional<EarlierWeights> find_earlier_weights(const TrainerOptions& options,
                                                   runner::RunContext& context);

/// The same of the weights of `source`, wherever they are asked for.
EarlierWeights read_earlier_weights(const runner::CheckpointSource& source,
                                    const TrainerOptions& options);

/// Gives `network`, which it moves to `device`, the trained weights. Throws runner::StageError,
/// kChangedRun where they do not fit.
void put_weights(const EarlierWeights& trained, torch::nn::Module& network, at::Device device);

/// Instead of train(), of a network that has got the trained weights, or will: says which they are,
/// also in checkpoint.json in the folder of the node.
TrainingResult report_earlier_weights(const EarlierWeights& trained, runner::RunContext& context);

/// Instead of train(): moves `network` to the device of the run and gives it the trained weights.
/// Says which they are, also in checkpoint.json in the folder of the node. Throws
/// runner::StageError, kChangedRun where they do not fit.
TrainingResult load_earlier_weights(const EarlierWeights& trained, torch::nn::Module& network,
                                    runner::RunContext& context);

}  // namespace stages
