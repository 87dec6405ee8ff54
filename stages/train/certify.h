#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runner/shared/stage/plan_context.h"
#include "stages/train/plan_training.h"
#include "stages/train/step_plan.h"
#include "stages/train/training_kind.h"

namespace stages {

/// Compares the gradient computed under the policy with that of the whole batch, in float64. The
/// model is made as small as possible (Shrunken); data and weights are random, as functions of the
/// context's seed. If the policy splits the batch, five samples are used, in parts of two; if it is
/// split between the groups that a loss is over, one group and two more samples. Dropout is active,
/// and frozen weights get no gradient. Other number formats than float64 are not compared: they
/// change a training and are only used if requested. Nothing is modified, but weights are read if a
/// model cannot be made small. A policy that is invalid for this training is returned as `refused`.
runner::Certificate certify(const TrainingToPlan& training, runner::PlanContext& context);

/// The same for one network, which is in float64, on the CPU and in training mode, and is left
/// unchanged. Ignores only the plan's numerics. A loss or a buffer that differs is listed in
/// `changed`. If the plan offloads or shards the optimizer or runs it in the backward pass, so is
/// each weight that has other bits after two steps than without. With `of_ranks`, networks equal to
/// `network`, as many ranks compute the step together (device.count).
runner::Certificate compare_gradients(
    const TrainingStep& step, torch::nn::Module& network, const Batch& batch, const StepPlan& plan,
    std::uint64_t seed, const std::vector<std::shared_ptr<torch::nn::Module>>& of_ranks = {});

}  // namespace stages
