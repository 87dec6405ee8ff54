#pragma once

#include <cstdint>

#include <c10/core/Device.h>

#include "stages/memory/policy.h"
#include "stages/train/step_execution.h"
#include "stages/train/trainer_options.h"
#include "stages/train/training_step.h"

namespace runner {
class RunContext;
}

namespace stages {

/// Puts together all that decides what the steps of a training compute and need: its plan as `policy` asks for it, the
/// network in training mode and prepared for that, and the groups of its parameters. The trainer runs what comes of it
/// on the device, the planner on the Meta device, and the certificate compares it on a network made small, so that what
/// is planned and certified is what runs.
///
/// All is borrowed. The network is on `device`, which is Meta where the device is only planned for; `samples` are
/// those of the training data. Says what was chosen. Throws runner::StageError where the options contradict each other
/// or do not suit the network.
StepExecution assemble_step(const TrainingStep& step, torch::nn::Module& network, std::int64_t samples,
                            const TrainerOptions& options, const MemoryPolicy& policy, c10::Device device,
                            runner::RunContext& context);

}  // namespace stages
