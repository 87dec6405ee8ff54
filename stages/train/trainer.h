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
  std::int64_t epoch = 0, step = 0;  ///< when the kept weights were taken, 1-based
  std::filesystem::path file;        ///< model.safetensors of the checkpoint that holds them
  std::map<std::string, double> validation =
      {};  ///< their validation scores by name; empty: not measured
};

/// Moves `network` to the device of the run and trains it. Afterwards it has the weights that
/// options.keep selects.
///
/// This is the only training loop: gradients are computed and the optimizer is stepped nowhere
/// else. Gradients are freed after every step; this is faster than clearing them and adding to
/// them, and needs less memory. A step is a transaction: everything that can fail comes before the
/// first weight is written, and a loss that is not finite is never written. A step that runs out of
/// memory is run again as policy.recovery says (step_recovery.h), under plans from `replan`, or
/// from next_plan() if it gives none. Any other exception leaves weights, buffers and torch's
/// generators as they were after the last complete step. In fp16 the loss is scaled (GradScaler); a
/// step whose gradients overflow is skipped, and a hundred of them in a row are an error.
///
/// Checkpoints (checkpoints.h) are saved in the node's folder as options.checkpoint says. They are
/// also saved after an epoch with the best validation so far, at the end, when the context requests
/// it, and at the step at which it cancels. If the context is resuming, the training continues from
/// the latest checkpoint; k steps, a stop and the other n - k give the same bits as n. Throws
/// runner::StageError, and runner::Cancelled if it was stopped.
TrainingResult train(const TrainingStep& step, torch::nn::Module& network, const TrainingData& data,
                     const TrainerOptions& options, const MemoryPolicy& policy,
                     runner::RunContext& context, const Replan& replan = {});

}  // namespace stages
