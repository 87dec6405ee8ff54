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

class ShardedGradients;
class StepGraph;

/// Options of accumulate_gradient().
struct AccumulationOptions {
  /// A float32 scalar on the device, by which the gradient is multiplied.
  std::optional<at::Tensor> scale = {};
  /// Called after each part has been run with a graph and its gradient has been computed.
  std::function<void()> after_micro_batch = {};
  /// Called with the loss before each backward pass of a part that has a graph; not with two passes
  /// over parts.
  std::function<void(const at::Tensor& loss)> before_backward = {};
  /// Each rank computes only its share of the batch; accumulate_over_ranks() sums the results. A
  /// loss over the whole batch is computed by every rank, from the embeddings of all ranks. Layers
  /// that mix the samples of a batch see the samples of all ranks (ScopedRankStatistics).
  runner::RankOfRun ranks = {};
  /// Sums the gradients over the ranks in the backward passes; null if it is not done there.
  ShardedGradients* sharded = nullptr;
  /// Replays parts of the batch, in a step that it has begun. It requires a single rank and a
  /// single pass. Null: all parts are computed.
  StepGraph* graph = nullptr;
};

/// Adds the gradient of the mean loss of `batch` to every parameter's .grad. `batch` must come from
/// network.placed(), and the network must be prepared with the plan's numerics; `plan` determines
/// how the batch is split. `weight` is TrainingStep::weight() of the whole batch. `key` seeds
/// dropout, together with the samples' indices (or their positions if the batch has no indices) and
/// the names of the inputs (ScopedInput).
///
/// If the plan has two passes, every micro-batch is encoded twice: first without an autograd graph,
/// to compute the loss and the scores of the whole batch; then with one, to propagate the loss's
/// gradient from the embeddings to the weights. Anything else that the loss depends on, such as a
/// learned temperature, gets its gradient once.
///
/// Returns the measurements, not yet copied to the host: one part for each micro-batch, or a single
/// part with two passes.
StepNumbers accumulate_gradient(const TrainingStep& step, const PreparedNetwork& network,
                                const Batch& batch, double weight, const StepPlan& plan,
                                const StepKey& key, const AccumulationOptions& options = {});

/// Runs the network on `batch` in training mode, like accumulate_gradient(), but without a loss or
/// a gradient: only its running statistics change (as in BatchNorm).
void see_in_training(const TrainingStep& step, const PreparedNetwork& network, const Batch& batch,
                     const StepPlan& plan, const StepKey& key, const runner::RankOfRun& ranks = {});

/// Leaves all parameters without a gradient. Unlike torch's zero_grad(), starts no operation.
void drop_gradients(torch::nn::Module& network);

/// The result of accumulate_over_ranks().
struct SummedNumbers {
  StepNumbers numbers;
  bool is_rest_safe = false;  ///< on all ranks
};

/// Has each rank call `prepare` and then `accumulate`, which calls accumulate_gradient(), and sums
/// the gradients of `parameters` and the numbers over all ranks. With sharded gradients, leave
/// `parameters` empty. With several ranks, the numbers have a single part. `is_rest_safe`, if
/// given, is called after `accumulate` and returns whether the rest of the step cannot run out of
/// memory on this rank.
SummedNumbers accumulate_over_ranks(GradientSum& sum, const std::vector<at::Tensor>& parameters,
                                    const TrainingStep& step, const StepPlan& plan,
                                    const std::function<void()>& prepare,
                                    const std::function<StepNumbers()>& accumulate,
                                    const std::function<bool()>& is_rest_safe = {});

}  // namespace stages
