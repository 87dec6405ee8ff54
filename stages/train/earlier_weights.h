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

/// Throws runner::StageError, kChangedRun, if a network's frozen weights (OnFrozenBase) are not
/// those that `state` was trained on.
void check_base(const torch::nn::Module& network, const TrainingState& state);

/// The weights that an earlier run trained, and the data that it was trained on (of size 0: the
/// data need not exist any more).
struct EarlierWeights {
  FoundCheckpoint checkpoint;
  DatasetDescription data;
  std::string weights =
      {};  ///< "averaged" or "trained" if the training averaged its weights; else empty
};

/// Finds the weights that NodeFacts::trained names; nullopt if this training is still to be run.
/// Throws runner::StageError: kNoCheckpoint, kDamagedWeights, or kOptionConflict if an average is
/// requested and none was saved. If a training is to be reused, such an error is reported by
/// context.not_reused() instead, and the result is nullopt.
std::optional<EarlierWeights> find_earlier_weights(const TrainerOptions& options,
                                                   runner::RunContext& context);

/// The same for the weights of `source`, wherever they are requested.
EarlierWeights read_earlier_weights(const runner::CheckpointSource& source,
                                    const TrainerOptions& options);

/// Moves `network` to `device` and loads the trained weights into it. Throws runner::StageError,
/// kChangedRun if they do not fit.
void put_weights(const EarlierWeights& trained, torch::nn::Module& network, at::Device device);

/// Replaces train() for a network that has the trained weights or will get them. Reports which
/// weights they are, also in checkpoint.json in the node's folder.
TrainingResult report_earlier_weights(const EarlierWeights& trained, runner::RunContext& context);

/// Replaces train(): moves `network` to the device of the run and loads the trained weights into
/// it. Reports which weights they are, also in checkpoint.json in the node's folder. Throws
/// runner::StageError, kChangedRun if they do not fit.
TrainingResult load_earlier_weights(const EarlierWeights& trained, torch::nn::Module& network,
                                    runner::RunContext& context);

}  // namespace stages
