#pragma once

#include <memory>
#include <optional>

#include "stages/artifact/model.h"
#include "stages/train/earlier_weights.h"
#include "stages/train/trainer_options.h"

namespace runner {
class Inputs;
class RunContext;
}  // namespace runner

namespace stages {

// A training without epochs, which saves its result in one checkpoint. It has the input ports
// train, model and memory.

/// Returns the options with which find_earlier_weights() finds its result.
TrainerOptions options_of_single();

/// Returns its checkpoint without a network. `trained` is the result of an earlier run, if that is
/// reused.
std::shared_ptr<Checkpoint> single_checkpoint(const runner::Inputs& inputs,
                                              const std::optional<EarlierWeights>& trained);

/// Makes the network of `checkpoint` with the result of an earlier run.
void reuse_single(const EarlierWeights& trained, Checkpoint& checkpoint,
                  runner::RunContext& context);

/// Removes what an interrupted run has saved, since such a training starts again.
void begin_single(runner::RunContext& context);

/// Saves the network of `checkpoint`, which was made for `images`.
void save_single(Checkpoint& checkpoint, const DatasetDescription& images,
                 runner::RunContext& context);

}  // namespace stages
