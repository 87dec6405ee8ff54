#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "stages/checkpoint/checkpoints.h"
#include "stages/train/trainer.h"

namespace torch::nn {
class Module;
}

namespace stages {

struct TrainingState;

/// Throws runner::StageError, kChangedRun, if a network's frozen weights (OnFrozenBase) differ from
/// those that `state` was trained with.
void check_base(const torch::nn::Module& network, const TrainingState& state);

/// The weights from an earlier run and a description of the data they were trained on. The
/// description's size is 0, since the data itself may no longer exist.
struct EarlierWeights {
  /// Its weights are on the Meta device, and are read when a network needs them, unless they are
  /// the ones that the checkpoint keeps for a resumed run.
  FoundCheckpoint checkpoint;
  DatasetDescription data;
  std::string weights =
      {};  ///< "averaged" or "trained" if the run averaged its weights; otherwise empty
};

/// Returns the weights that NodeFacts::trained specifies; nullopt if the stage still has to be
/// trained. Throws runner::StageError: kNoCheckpoint, kDamagedWeights, or kOptionConflict if an
/// average is requested but none was saved. If an earlier result would merely be reused, such an
/// error is reported to context.not_reused() instead, and nullopt is returned.
std::optional<EarlierWeights> find_earlier_weights(const TrainerOptions& options,
                                                   runner::RunContext& context);

/// With several ranks, informs all of them whether rank 0 reuses the result of an earlier run,
/// which only rank 0 knows. `trained` is what this rank has found.
bool is_reused_by_first(const std::optional<EarlierWeights>& trained,
                        const runner::RankOfRun& ranks);

/// Reads the weights from `source`. Throws like find_earlier_weights().
EarlierWeights read_earlier_weights(const runner::CheckpointSource& source,
                                    const TrainerOptions& options);

/// Moves `network` to `device` and loads the weights of the checkpoint into it; those on the Meta
/// device are read from its folder, piece by piece. Throws runner::StageError: kDamagedWeights, or
/// kChangedRun if they do not match.
void put_weights(const FoundCheckpoint& found, torch::nn::Module& network, at::Device device);

/// Calls put_weights() with the weights of the checkpoint in `folder`.
void read_weights(const std::filesystem::path& folder, torch::nn::Module& network,
                  at::Device device);

/// Called instead of train() for a network that already has the trained weights or will get them
/// later. Reports which weights they are, and records this in checkpoint.json in the node's folder.
TrainingResult report_earlier_weights(const EarlierWeights& trained, runner::RunContext& context);

/// Called instead of train(): moves `network` to the run's device and loads the trained weights
/// into it. Reports which weights they are, and records this in checkpoint.json in the node's
/// folder. Throws runner::StageError, kChangedRun, if they do not match.
TrainingResult load_earlier_weights(const EarlierWeights& trained, torch::nn::Module& network,
                                    runner::RunContext& context);

}  // namespace stages
