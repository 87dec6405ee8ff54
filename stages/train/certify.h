#pragma once

#include <cstdint>

#include "runner/shared/stage/plan_context.h"
#include "stages/train/plan_training.h"
#include "stages/train/step_plan.h"
#include "stages/train/training_kind.h"

namespace stages {

/// Computes a gradient as the policy asks for and at once as a whole, in float64 on shapes as small
/// as the model can be made (Shrunken), on random data and with random weights, all of them
/// functions of the context's seed. Of a batch that the policy cuts five samples are taken, in
/// parts of two; of one that is cut between the groups that a loss is over, a group and two samples
/// more. What is dropped is dropped, and what is frozen gets no gradient. Other number formats than
/// float64 are not compared: they change a training and are only ever asked for. Nothing is
/// changed, but weights are read where a model cannot be made small. A policy that is none for this
/// training comes back as `refused`.
runner::Certificate certify(const TrainingToPlan& training, runner::PlanContext& context);

/// The same of one network, which is in float64, on the CPU and in training mode, and stays as it
/// is; only what the plan's numerics say is left out. A loss or a buffer that comes out otherwise
/// is among `changed`. Where the plan has the optimizer offloaded or in the backward pass, so is a
/// weight of which two steps leave other bits than without.
runner::Certificate compare_gradients(const TrainingStep& step, torch::nn::Module& network,
                                      const Batch& batch, const StepPlan& plan, std::uint64_t seed);

}  // namespace stages
