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

// A training run without epochs, which saves its result in one checkpoint. It has the input ports
// train, model and memory.

/// Returns the options that let find_earlier_weights() find the result of such a run.
TrainerOptions options_of_single();

/// Returns the checkpoint of such a run, without a network. `trained` is the result of an earlier
/// run, if one is reused.
std::shared_ptr<Checkpoint> single_checkpoint(const runner::Inputs& inputs,
                                              const std::optional<EarlierWeights>& trained);

/// Creates the network of `checkpoint` from the result of an earlier run.
void reuse_single(const EarlierWeights& trained, Checkpoint& checkpoint,
                  runner::RunContext& context);

/// Removes everything that an interrupted run saved, since such training starts over.
void begin_single(runner::RunContext& context);

/// Saves the network of `checkpoint`, which was created for `images`.
void save_single(Checkpoint& checkpoint, const DatasetDescription& images,
                 runner::RunContext& context);

}  // namespace stages
