#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runner/shared/stage/plan_context.h"
#include "stages/train/plan_training.h"
#include "stages/train/step_plan.h"
#include "stages/train/training_kind.h"

namespace stages {

/// Compares, in float64, the gradient under the policy with the gradient of the whole batch. The
/// model is made as small as possible (Shrunken); data and weights are random, determined by the
/// context's seed. The batch has five samples or, if a loss is computed over larger groups, one
/// group and two more samples. If the policy splits the batch, each part has two samples or one
/// group. Dropout is active, and frozen weights have no gradient. Dtypes other than float64 are not
/// compared: they change what is trained and are used only on request. Nothing is modified, but
/// weights are read if the model cannot be made small. If the policy is invalid for this training
/// run, `refused` is set in the result.
runner::Certificate certify(const TrainingToPlan& training, runner::PlanContext& context);

/// Compares gradients like certify(), for one network. The network must be in float64, on the CPU
/// and in training mode, and is left unchanged. Only the plan's numerics are ignored. `changed`
/// lists every loss or buffer that differs. If the plan offloads or shards the optimizer or runs it
/// in the backward pass, `changed` also lists each weight that differs in any bit after two steps
/// of AdamW. AdamW's state is not quantized: quantization would turn differences in a gradient's
/// last digits into differences of whole codes. `of_ranks` are networks identical to `network`, one
/// for each of the ranks that then compute the step together (device.count).
runner::Certificate compare_gradients(
    const TrainingStep& step, torch::nn::Module& network, const Batch& batch, const StepPlan& plan,
    std::uint64_t seed, const std::vector<std::shared_ptr<torch::nn::Module>>& of_ranks = {});

}  // namespace stages
