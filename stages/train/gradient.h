#pragma once

#include <functional>
#include <optional>

#include "stages/numerics/prepared_network.h"
#include "stages/random/dropout.h"
#include "stages/tensor/batch.h"
#include "stages/train/step_plan.h"
#include "stages/train/training_kind.h"

namespace stages {

/// Adds to every parameter's .grad the gradient of the mean loss of `batch`, which `network` has
/// placed, cut as `plan` says; the network is prepared as the plan's numerics say. `weight` is the
/// step's weight(whole batch); with a `scale`, a float32 scalar on the device, so many times that
/// gradient. `key` decides what dropout drops, together with the batch's indices, or where it has
/// none with the positions in it, and the names of its inputs (ScopedInput).
///
/// Where the plan has two passes, every micro-batch is encoded twice: first without a graph, so
/// that the loss and the scores are those of the batch as a whole, then to send the loss's gradient
/// by the embeddings on to the weights. What the loss depends on besides the embeddings, such as a
/// temperature that is learned, gets its gradient once.
///
/// `after_micro_batch` is called whenever a part has been run with a graph and its gradient is
/// there; it may be empty.
///
/// `before_backward` is given the loss of what is run with a graph, before its backward pass; it
/// may be empty. Two passes over parts do not call it.
///
/// Returns what was measured on the way, not yet fetched: a part for each micro-batch, or one in
/// two passes.
StepNumbers accumulate_gradient(
    const TrainingStep& step, const PreparedNetwork& network, const Batch& batch, double weight,
    const StepPlan& plan, const StepKey& key, const std::optional<at::Tensor>& scale = {},
    const std::function<void()>& after_micro_batch = {},
    const std::function<void(const at::Tensor& loss)>& before_backward = {});

}  // namespace stages
