#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "runner/shared/stage/run_context.h"
#include "stages/memory/policy.h"
#include "stages/numerics/prepared_network.h"
#include "stages/ranks/gradient_sum.h"
#include "stages/ranks/messages.h"
#include "stages/tensor/named_tensors.h"
#include "stages/train/batch_buffers.h"
#include "stages/train/grad_scaler.h"
#include "stages/train/gradient.h"
#include "stages/train/gradient_clip.h"
#include "stages/train/gradient_histogram.h"
#include "stages/train/optimizer.h"
#include "stages/train/sharded_gradients.h"
#include "stages/train/sharded_parameters.h"
#include "stages/train/step_graph.h"
#include "stages/train/step_plan.h"
#include "stages/train/trainer_options.h"
#include "stages/train/weight_average.h"

namespace stages {

/// Runs optimizer steps, each in two halves:
///
///   auto computed = execution.compute(batch, {seed, step});  // may fail, and changes no weight
///   execution.commit(computed);                              // allocates nothing, and cannot fail
///
/// With the plan's optimizer_in_backward, the backward pass of compute() also writes the weights,
/// unless the loss is not finite. If compute() fails after the first such write, the step
/// is_half_written() and cannot be undone.
///
/// A training run executes these steps; a dry run traces them on the Meta device. A StepSnapshot
/// restores the other state that compute() modifies (gradients, buffers, random number generators).
class StepExecution {
 public:
  /// The step and the network are borrowed; the network is on `device`. With several ranks, each
  /// step computes this rank's share of the batch and the sums over all ranks. While this object
  /// lives, the network is prepared with the plan's numerics. In fp16, the loss is scaled. The
  /// constructor decides whether the optimizer is offloaded or sharded; that cannot change later.
  /// `histograms_every` is the number of steps from one that counts its gradients to the next; 0:
  /// none does.
  StepExecution(const TrainingStep& step, torch::nn::Module& network,
                const std::vector<ParameterGroup>& groups, StepPlan plan, GradientClip clip,
                at::Device device, std::optional<WeightAverageOptions> average = {},
                const runner::RankOfRun& ranks = {}, std::int64_t histograms_every = 0);

  /// From now on, copies each batch to the GPU while the GPU still computes the previous step.
  /// `largest` is a batch of the largest size, on the Meta device. compute() allocates the buffers.
  BatchBuffers& copy_ahead(const Batch& largest);

  /// If the plan shards the parameters, each rank keeps its part of them from now on. Call this
  /// before the first step, when the weights and state() have been loaded.
  void divide_parameters();
  /// Gives every rank all parameters again, after the last step. All ranks must call this at the
  /// same point.
  void join_parameters();
  /// Returns the rank that has the values of a weight or of its average, by its name in a
  /// checkpoint; nullopt if all ranks have them.
  std::optional<int> owner_of_weight(std::string_view name) const;

  /// A step just before its weights are written.
  struct Computed {
    StepNumbers numbers;
    std::vector<at::Tensor> gradients;
    std::optional<at::Tensor> overflow;  ///< 1 if the gradients overflowed; nullopt without scaling
    std::optional<at::Tensor> divisor;   ///< divides the gradients, for clipping
    std::optional<at::Tensor> skip;      ///< 1: do not change the weights; nullopt: change them
    at::Tensor scratch;                  ///< device memory for offloaded optimizer state
    std::optional<Messages> updated;     ///< the weights, if each rank updates only some
    std::int64_t step = 0;               ///< 1-based
    /// Histograms of the gradients, summed over micro-batches and ranks, unscaled but not clipped;
    /// nullopt for most steps.
    std::optional<GradientHistograms> histograms = {};
    std::vector<bool> present = {};  ///< whether each parameter has a gradient on any rank
  };
  /// `after_micro_batch` is as in AccumulationOptions. `before_step`, if given, is called first;
  /// if it runs out of memory on one rank, it counts as out of memory on all ranks.
  Computed compute(const Batch& batch, const StepKey& key,
                   const std::function<void()>& after_micro_batch = {},
                   const std::function<void()>& before_step = {});
  /// True if compute() failed after writing some of a step's weights.
  bool is_half_written() const { return is_half_written_; }
  /// On a GPU, returns a float32 scalar there: 1 if any step so far has failed, that is, if its
  /// loss or its gradient was not finite. From that step on, no step changes a weight, so the host
  /// may find out later (PendingSteps). nullopt before the first step and on a CPU, where the host
  /// looks at the numbers of each step before it commits the step.
  std::optional<at::Tensor> failed() const {
    return failed_.defined() ? std::optional(failed_) : std::nullopt;
  }
  /// Steps the optimizer at its current rates (with optimizer_in_backward, compute() has already
  /// done so) and drops the gradients. With a sharded optimizer, the ranks exchange the updated
  /// weights, so this throws runner::StageError, kRankLost, if a rank has exited.
  void commit(const Computed& computed);

  const StepPlan& plan() const { return plan_; }
  /// Replaces the plan, starting with the next step or with a retry of the same step. The new plan
  /// must have the numerics of the old plan, and offload and shard the same things.
  void replace_plan(StepPlan plan);
  const PreparedNetwork& network() const { return network_; }
  Optimizer& optimizer() { return optimizer_; }
  const Optimizer& optimizer() const { return optimizer_; }
  /// Returns the state of the optimizer and of the weight average. Shared, not copied.
  NamedTensors state() const;
  /// Returns the part of state() that is on the device. Does not wait for a GPU.
  NamedTensors state_on_device() const;
  /// Returns the graph that replays micro-batches; null if none does.
  const StepGraph* graph() const { return graph_ ? &*graph_ : nullptr; }
  /// Returns the average of the weights; null if none is kept.
  WeightAverage* average() { return average_ ? &*average_ : nullptr; }
  const WeightAverage* average() const { return average_ ? &*average_ : nullptr; }
  /// Returns the scaler; null if the loss is not scaled.
  GradScaler* scaler() { return scaler_ ? &*scaler_ : nullptr; }
  const GradScaler* scaler() const { return scaler_ ? &*scaler_ : nullptr; }

 private:
  Batch arranged(const Batch& batch) const;
  Batch on_device(const Batch& batch);
  NamedTensors with_average(NamedTensors state) const;
  Messages updated_weights(const std::vector<bool>& present) const;
  std::vector<bool> present_gradients();
  at::Tensor norm_of_all(const std::vector<at::Tensor>& gradients) const;
  bool are_gradients_elsewhere() const;
  bool counts_gradients(std::int64_t step) const;
  bool is_rest_safe(std::int64_t step) const;
  bool runs_ahead() const;
  const runner::RankOfRun& ranks() const { return sum_.ranks(); }

  const TrainingStep& step_;
  StepPlan plan_;
  const PreparedNetwork network_;
  const GradientClip clip_;
  const StateShard shard_;
  Optimizer optimizer_;
  std::optional<GradScaler> scaler_;
  std::optional<WeightAverage> average_;
  GradientSum sum_;
  std::optional<ShardedGradients> sharded_;
  std::optional<ShardedParameters> divided_;
  std::optional<StepGraph> graph_;
  const std::int64_t histograms_every_;
  bool is_half_written_ = false;
  std::optional<BatchBuffers> batches_;
  at::Tensor failed_;  // undefined unless the host runs ahead of the device
};

/// Returns the plan under `policy` for a training run with a network from options.model_stage that
/// computes with `numerics`. `samples` is the size of the training data. Throws like
/// make_step_plan() and activation_checkpointing_for(), and if gradients are to be clipped or
/// counted although optimizer_in_backward frees each one immediately.
StepPlan plan_under(const MemoryPolicy& policy, const TrainingStep& step,
                    const torch::nn::Module& network, std::int64_t samples,
                    const TrainerOptions& options, Numerics numerics, int ranks = 1);

/// Assembles everything that determines what the steps of a training run compute and need: the plan
/// under `policy`, the network in training mode and prepared for that plan, and its parameter
/// groups. The trainer runs the result on the device, the planner runs it on the Meta device, and
/// the certificate compares it on a shrunken network. This way, the step that runs is the one that
/// was planned and certified.
///
/// The step and the network are borrowed. The network is on `device`, which is Meta if the run is
/// only planned; `samples` is the size of the training data. Reports what was chosen. Throws
/// runner::StageError if the options contradict each other or do not suit the network.
StepExecution assemble_step(const TrainingStep& step, torch::nn::Module& network,
                            std::int64_t samples, const TrainerOptions& options,
                            const MemoryPolicy& policy, c10::Device device,
                            runner::RunContext& context);

class Optimizer;

/// While this object lives, the backward pass updates each parameter as soon as its gradient is
/// complete, then drops the gradient, so gradients never all exist at once. By then, all operations
/// that need the parameter's value have run: torch's engine waits for every use of it. This
/// requires a single backward pass, and nothing that needs all gradients together.
class [[nodiscard]] ScopedStepsInBackward {
 public:
  /// `skip` is as in Optimizer::step(). `clip` limits each gradient before it is used; it must not
  /// limit the norm. `has_begun`, borrowed like `optimizer` and `clip`, is set to true just
  /// before the first parameter is updated: from then on the step cannot be undone.
  ScopedStepsInBackward(Optimizer& optimizer, const std::optional<at::Tensor>& skip,
                        const GradientClip& clip, bool& has_begun);
  ~ScopedStepsInBackward();
  ScopedStepsInBackward(const ScopedStepsInBackward&) = delete;
  ScopedStepsInBackward& operator=(const ScopedStepsInBackward&) = delete;

 private:
  const std::vector<at::Tensor> parameters_;
};

}  // namespace stages
