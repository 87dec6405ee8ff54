#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "runner/shared/stage/run_context.h"
#include "stages/memory/policy.h"
#include "stages/numerics/prepared_network.h"
#include "stages/random/generator_state.h"
#include "stages/ranks/gradient_sum.h"
#include "stages/ranks/messages.h"
#include "stages/tensor/named_tensors.h"
#include "stages/train/batch_buffers.h"
#include "stages/train/gradient.h"
#include "stages/train/gradient_clip.h"
#include "stages/train/gradient_histogram.h"
#include "stages/train/optimizer.h"
#include "stages/train/sharded_gradients.h"
#include "stages/train/sharded_parameters.h"
#include "stages/train/step_plan.h"
#include "stages/train/trainer_options.h"
#include "stages/train/weight_average.h"

namespace stages {

/// Keeps fp16 gradients from underflowing. The loss is multiplied by a scale and the gradients are
/// divided by it. If the gradients overflow, the step is skipped and the scale is reduced. The
/// rule, its constants and its kernels are the same as in torch.amp.GradScaler. One scale applies
/// to a whole batch, however it is split.
///
///   compute the gradient of loss * scaler.scale() for every micro-batch
///   const at::Tensor overflow = scaler.unscale(gradients);
///   step the optimizer, which does nothing if overflow is 1
///   scaler.update(overflow);
class GradScaler {
 public:
  struct Options {
    double initial_scale = 65536;
    double growth_factor = 2;     ///< after growth_interval steps in a row without overflow
    double backoff_factor = 0.5;  ///< after an overflow
    std::int64_t growth_interval = 2000;
  };

  GradScaler(Options options, at::Device device);

  /// A float32 scalar on the device.
  const at::Tensor& scale() const { return scale_; }

  /// Divides the gradients by the scale, in place. Returns 1 if any of them is not finite,
  /// otherwise 0, as a float32 scalar on the device; the host need not wait for it. All gradients
  /// must be on one device.
  at::Tensor unscale(const std::vector<at::Tensor>& gradients) const;

  /// Grows or shrinks the scale after a step; allocates nothing.
  void update(const at::Tensor& overflow);

  /// Returns "scale" and "growth_tracker", all state needed to continue as if never interrupted.
  /// Shared, not copied.
  NamedTensors state() const;
  /// Loads a saved state. Throws std::invalid_argument if `state` is not the state of a scaler.
  void load_state(const NamedTensors& state);

 private:
  const Options options_;
  at::Tensor scale_;           // float32
  at::Tensor growth_tracker_;  // int32: steps in a row without overflow
};

/// Returns the Euclidean norm of all gradients together, a scalar on their device. There must be at
/// least one gradient.
at::Tensor global_norm(at::TensorList gradients);

/// Returns the divisor that limits gradients of norm `norm` to `limit`: max(1, (norm + 1e-6) /
/// limit), the inverse of the factor in torch's clip_grad_norm_. A scalar on the norm's device.
at::Tensor clip_divisor(const at::Tensor& norm, double limit);

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
  /// `histograms_every`: steps between two steps that count their gradients; 0: none does.
  StepExecution(const TrainingStep& step, torch::nn::Module& network,
                const std::vector<ParameterGroup>& groups, StepPlan plan, GradientClip clip,
                at::Device device, std::optional<WeightAverageOptions> average = {},
                const runner::RankOfRun& ranks = {}, std::int64_t histograms_every = 0);

  /// From now on, copies each batch to the GPU while the GPU still computes the step before.
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
    std::optional<at::Tensor> skip;      ///< 1: do not change the weights
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
  /// Steps the optimizer at its current rates (with optimizer_in_backward, compute() has already
  /// done so) and drops the gradients. With a sharded optimizer, the ranks exchange the updated
  /// weights, so this throws runner::StageError, kRankLost, if a rank has exited.
  void commit(const Computed& computed);

  const StepPlan& plan() const { return plan_; }
  /// Replaces the plan, starting with the next step or with a retry of the same step. The new plan
  /// must keep the numerics of the old plan, and what is offloaded or sharded.
  void replace_plan(StepPlan plan);
  const PreparedNetwork& network() const { return network_; }
  Optimizer& optimizer() { return optimizer_; }
  const Optimizer& optimizer() const { return optimizer_; }
  /// Returns the state of the optimizer and of the weight average. Shared, not copied.
  NamedTensors state() const;
  /// Returns the part of state() that is on the device. Does not wait for a GPU.
  NamedTensors state_on_device() const;
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
  const std::int64_t histograms_every_;
  bool is_half_written_ = false;
  std::optional<BatchBuffers> batches_;
};

/// Saves the state that computing a step may modify: torch's random number generators and the
/// network's buffers (the running statistics of BatchNorm). Gradients are not saved, since there
/// are none before a step.
///
///   const StepSnapshot before(network, device);
///   try { compute(); } catch (...) { before.restore(); throw; }
///
/// The network must outlive this object and keep its buffers.
class StepSnapshot {
 public:
  StepSnapshot(torch::nn::Module& network, at::Device device);
  /// Restores everything and drops the gradients.
  void restore() const;
  /// Returns the bytes of CPU memory that the generators' states use.
  std::int64_t generator_bytes() const;

 private:
  torch::nn::Module* network_;
  GeneratorStates generators_;
  std::vector<std::pair<at::Tensor, at::Tensor>> buffers_;  // the network's buffer and its copy
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
