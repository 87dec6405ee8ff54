#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "runner/shared/stage/run_context.h"
#include "stages/memory/policy.h"
#include "stages/plan/memory_budget.h"
#include "stages/train/trainer_options.h"
#include "stages/train/training_kind.h"

namespace stages {

struct TrainingResult {
  std::int64_t epoch = 0, step = 0;  ///< when the kept weights were saved, 1-based
  std::filesystem::path file;        ///< model.safetensors of their checkpoint
  std::map<std::string, double> validation =
      {};  ///< validation scores of the kept weights by name; empty: not measured
};

/// Moves `network` to the run's device and trains it. Afterward, the network has the weights
/// selected by options.keep. If the plan shards the parameters, only the result's file has those
/// weights: the network's blocks have lost theirs. It may have been built in shards.
///
/// This is the only training loop: no other code computes gradients or steps the optimizer.
/// Gradients are freed after every step, which is faster than clearing them and adding to them, and
/// needs less memory; only a CUDA graph needs them in one place (step_graph.h). A step is a
/// transaction: everything that can fail happens before the first weight is written, and a step
/// with a loss that is not finite never writes weights. On a GPU, the host reads the numbers of
/// steps only every options.log_every steps, and a step after a loss that is not finite writes no
/// weights either. A step that runs out of memory is retried according to policy.recovery
/// (step_recovery.h), under plans from `replan` or, if it returns none, from next_plan(). Any other
/// exception leaves weights, buffers and torch's generators as they were after the last complete
/// step. In fp16, the loss is scaled (GradScaler); a step with overflowing gradients is skipped,
/// and a hundred of them in a row are an error.
///
/// Checkpoints (checkpoints.h) are saved in the node's folder according to options.checkpoint. They
/// are also saved after an epoch with the best validation so far, at the end, when the context
/// requests it, and at the step at which it cancels. If the context is resuming, training continues
/// from the latest checkpoint: k steps, a stop and the remaining n - k steps give bitwise the same
/// result as n steps. Throws runner::StageError, and runner::Canceled if it was stopped.
TrainingResult train(const TrainingStep& step, torch::nn::Module& network, const TrainingData& data,
                     const TrainerOptions& options, const MemoryPolicy& policy,
                     runner::RunContext& context, const Replan& replan = {});

}  // namespace stages
