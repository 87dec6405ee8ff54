#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "runner/shared/stage/run_context.h"
#include "stages/numerics/prepared_network.h"
#include "stages/random/dropout.h"
#include "stages/ranks/gradient_sum.h"
#include "stages/tensor/batch.h"
#include "stages/train/step_plan.h"
#include "stages/train/training_kind.h"

namespace stages {

/// Adds the gradient of the mean loss of `batch` to every parameter's .grad. The network has
/// already placed the batch, `plan` says how it is split, and the network is prepared as the plan's
/// numerics say. `weight` is the step's weight(whole batch). `scale`, if given, is a float32 scalar
/// on the device that multiplies the gradient. `key` seeds dropout, together with the batch's
/// indices, or if it has none with the positions in it, and the names of its inputs (ScopedInput).
///
/// If the plan has two passes, every micro-batch is encoded twice: first without a graph, to
/// compute the loss and the scores of the batch as a whole; then with a graph, to propagate the
/// loss's gradient from the embeddings to the weights. Anything else that the loss depends on, such
/// as a learned temperature, gets its gradient once.
///
/// `after_micro_batch` is called whenever a part has been run with a graph and its gradient has
/// been computed; it may be empty.
///
/// `before_backward` is given the loss of what is run with a graph, before its backward pass; it
/// may be empty. Two passes over parts do not call it.
///
/// One of several `ranks` computes its share of the batch alone; the gradients and numbers of all
/// add up to those of the batch (accumulate_over_ranks()). A loss over the whole batch is computed
/// by every rank, from the embeddings of all. Layers that mix the samples of a batch see those of
/// all ranks (ScopedRankStatistics).
///
/// Returns what was measured, not yet copied to the host: one part for each micro-batch, or one
/// part with two passes.
StepNumbers accumulate_gradient(
    const TrainingStep& step, const PreparedNetwork& network, const Batch& batch, double weight,
    const StepPlan& plan, const StepKey& key, const std::optional<at::Tensor>& scale = {},
    const std::function<void()>& after_micro_batch = {},
    const std::function<void(const at::Tensor& loss)>& before_backward = {},
    const runner::RankOfRun& ranks = {});

/// Has each rank call `prepare` and then `accumulate`, which is accumulate_gradient(), and sums the
/// gradients of `parameters` and the numbers over all of them: one part with several ranks.
StepNumbers accumulate_over_ranks(GradientSum& sum, const std::vector<at::Tensor>& parameters,
                                  const TrainingStep& step, const StepPlan& plan,
                                  const std::function<void()>& prepare,
                                  const std::function<StepNumbers()>& accumulate);

}  // namespace stages
