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
  std::int64_t epoch = 0, step = 0;  ///< at which the kept weights were taken, 1-based
  std::filesystem::path file;        ///< model.safetensors of the checkpoint that holds them
  std::map<std::string, double> validation =
      {};  ///< how good they were, by name; empty: not measured
};

/// Trains `network`, which it moves to the device of the run, and leaves it with the weights that
/// options.keep asks for.
///
/// The one loop of all trainings: the gradient is computed and the optimizer stepped here and
/// nowhere else. Gradients are freed after every step: that costs less than clearing and adding to
/// them, and less memory. A step is a transaction: everything that can fail comes before the first
/// weight is written, and a loss that is not finite is never written at all. A step that runs out
/// of memory is run again as policy.recovery says (step_recovery.h), under plans that `replan`
/// gives, or next_plan() where it gives none; whatever else is thrown leaves weights, buffers and
/// torch's generators as the last whole step left them. In fp16 the loss is scaled (grad_scaler.h);
/// a step whose gradients overflow is skipped, and a hundred of them in a row are an error.
///
/// Checkpoints (checkpoints.h) are saved in the node's folder as options.checkpoint says, and
/// besides after an epoch with the best validation so far, at the end, when the context asks for
/// it, and at the step at which it cancels. Where the context is resuming, the training continues
/// from the latest; k steps, a stop and the other n - k come to the same bits as n. Throws
/// runner::StageError, and runner::Cancelled where it was stopped.
TrainingResult train(const TrainingStep& step, torch::nn::Module& network, const TrainingData& data,
                     const TrainerOptions& options, const MemoryPolicy& policy,
                     runner::RunContext& context, const Replan& replan = {});

}  // namespace stages
