#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "stages/memory/policy.h"
#include "stages/numerics/prepared_network.h"
#include "stages/random/generator_state.h"
#include "stages/tensor/named_tensors.h"
#include "stages/train/gradient.h"
#include "stages/train/optimizer.h"
#include "stages/train/step_plan.h"
#include "stages/train/trainer_options.h"
#include "stages/train/weight_average.h"

namespace runner {
class RunContext;
}

namespace stages {

/// Keeps gradients that pass through fp16 from vanishing: the loss is multiplied by a scale, the
/// gradients are divided by it again, and a step whose gradients overflowed is skipped and followed
/// by a smaller scale. The rule, its numbers and its kernels are those of torch.amp.GradScaler; one
/// scale holds for a whole logical batch, however it is cut.
///
///   the gradient of loss * scaler.scale(), of every micro-batch
///   const at::Tensor overflow = scaler.unscale(gradients);
///   the optimizer's step, told to do nothing where overflow is 1
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

  /// Divides the gradients by the scale, in place; 1 if any of them is not finite, else 0: a
  /// float32 scalar on the device, for which the host need not wait. They may be on one device
  /// only.
  at::Tensor unscale(const std::vector<at::Tensor>& gradients) const;

  /// Grows or shrinks the scale after a step; allocates nothing.
  void update(const at::Tensor& overflow);

  /// "scale" and "growth_tracker": all that must be saved to continue as if never interrupted.
  /// Shared, not copied.
  NamedTensors state() const;
  /// Takes a saved state over. Throws std::invalid_argument if it is not one.
  void load_state(const NamedTensors& state);

 private:
  const Options options_;
  at::Tensor scale_;           // float32
  at::Tensor growth_tracker_;  // int32: steps in a row without overflow
};

/// The Euclidean norm of all gradients taken together, a scalar on their device. There must be at
/// least one.
at::Tensor global_norm(at::TensorList gradients);

/// What to divide gradients of norm `norm` by so that it is at most `limit`: max(1, (norm + 1e-6) /
/// limit), the inverse of what torch's clip_grad_norm_ multiplies them by. A scalar on the norm's
/// device.
at::Tensor clip_divisor(const at::Tensor& norm, double limit);

/// One optimizer step after another, each in two halves:
///
///   auto computed = execution.compute(batch, {seed, step});  // can fail, and writes no weight
///   execution.commit(computed);                              // allocates nothing, and cannot fail
///
/// Where the plan has optimizer_in_backward, the backward pass of compute() writes the weights too,
/// unless the loss is not finite; what fails after the first of them is_half_written() and cannot
/// be undone.
///
/// A training runs it, a dry run traces it on the Meta device. What compute() spoils besides
/// (gradients, buffers, random numbers), a StepSnapshot puts back.
class StepExecution {
 public:
  /// All is borrowed; the network is on `device`. As long as this lives, it is prepared as the
  /// plan's numerics say. In fp16 the loss is scaled. Whether the optimizer is offloaded is decided
  /// here for good.
  StepExecution(const TrainingStep& step, torch::nn::Module& network,
                const std::vector<ParameterGroup>& groups, StepPlan plan,
                std::optional<double> gradient_clip_norm, at::Device device,
                std::optional<WeightAverageOptions> average = {});

  /// A step up to where the weights are written.
  struct Computed {
    StepNumbers numbers;
    std::vector<at::Tensor> gradients;
    std::optional<at::Tensor>
        overflow;                       ///< where the loss is scaled: 1 if the gradients overflowed
    std::optional<at::Tensor> divisor;  ///< of clipping
    std::optional<at::Tensor> skip;     ///< 1: the weights are to be left alone
    at::Tensor scratch;                 ///< of an optimizer whose state is offloaded
    std::int64_t step = 0;              ///< 1-based
  };
  /// `after_micro_batch` as accumulate_gradient() has it.
  Computed compute(const Batch& batch, const StepKey& key,
                   const std::function<void()>& after_micro_batch = {});
  /// Some weights are those of a step that compute() did not finish.
  bool is_half_written() const { return is_half_written_; }
  /// One step of the optimizer, at its rates, which with optimizer_in_backward are those of
  /// compute(). Also drops the gradients.
  void commit(const Computed& computed);

  const StepPlan& plan() const { return plan_; }
  /// From the next step on, or for the same one once more. Its numerics are those of the plan
  /// before, and whether the optimizer is offloaded.
  void replace_plan(StepPlan plan);
  const PreparedNetwork& network() const { return network_; }
  Optimizer& optimizer() { return optimizer_; }
  const Optimizer& optimizer() const { return optimizer_; }
  /// What the optimizer and the average of the weights remember. Shared, not copied.
  NamedTensors state() const;
  /// The part of it that lies on the device. Does not wait for a GPU.
  NamedTensors state_on_device() const;
  /// Null where no average is kept.
  WeightAverage* average() { return average_ ? &*average_ : nullptr; }
  const WeightAverage* average() const { return average_ ? &*average_ : nullptr; }
  /// Null where the loss is not scaled.
  GradScaler* scaler() { return scaler_ ? &*scaler_ : nullptr; }
  const GradScaler* scaler() const { return scaler_ ? &*scaler_ : nullptr; }

 private:
  NamedTensors with_average(NamedTensors state) const;

  const TrainingStep& step_;
  StepPlan plan_;
  const PreparedNetwork network_;
  const std::optional<double> gradient_clip_norm_;
  Optimizer optimizer_;
  std::optional<GradScaler> scaler_;
  std::optional<WeightAverage> average_;
  bool is_half_written_ = false;
};

/// What computing a step may spoil, as it was before: the states of torch's generators, the
/// network's buffers (the running statistics of BatchNorm). Before a step there are no gradients.
///
///   const StepSnapshot before(network, device);
///   try { compute(); } catch (...) { before.restore(); throw; }
///
/// The network must outlive it and keep its buffers.
class StepSnapshot {
 public:
  StepSnapshot(torch::nn::Module& network, at::Device device);
  /// Puts all back, and drops the gradients.
  void restore() const;
  /// What the states of the generators take of the CPU's memory.
  std::int64_t generator_bytes() const;

 private:
  torch::nn::Module* network_;
  GeneratorStates generators_;
  std::vector<std::pair<at::Tensor, at::Tensor>> buffers_;  // the network's own, and its copy
};

/// The plan that `policy` asks for of a training whose network, made by options.model_stage,
/// computes as `numerics` say. `samples` are those of the training data. Throws as make_step_plan()
/// and activation_checkpointing_for(), and where gradients are to be clipped that are gone one by
/// one.
StepPlan plan_under(const MemoryPolicy& policy, const TrainingStep& step,
                    const torch::nn::Module& network, std::int64_t samples,
                    const TrainerOptions& options, Numerics numerics);

/// Puts together all that decides what the steps of a training compute and need: its plan as
/// `policy` asks for it, the network in training mode and prepared for that, and the groups of its
/// parameters. The trainer runs what comes of it on the device, the planner on the Meta device, and
/// the certificate compares it on a network made small, so that what is planned and certified is
/// what runs.
///
/// All is borrowed. The network is on `device`, which is Meta where the device is only planned for;
/// `samples` are those of the training data. Says what was chosen. Throws runner::StageError where
/// the options contradict each other or do not suit the network.
StepExecution assemble_step(const TrainingStep& step, torch::nn::Module& network,
                            std::int64_t samples, const TrainerOptions& options,
                            const MemoryPolicy& policy, c10::Device device,
                            runner::RunContext& context);

class Optimizer;

/// While it lives, the backward pass steps each parameter as soon as its gradient is there, and
/// drops the gradient, so that there are never all of them at once. A parameter's gradient is whole
/// by then, and all that needs its value has run: torch's engine waits for every use of it. So
/// there must be one backward pass, and nothing that looks at all gradients together.
class [[nodiscard]] ScopedStepsInBackward {
 public:
  /// `skip` as Optimizer::step() has it. `has_begun`, which is borrowed as `optimizer` is, becomes
  /// true when the first parameter is about to be stepped: from there on what is computed cannot be
  /// undone.
  ScopedStepsInBackward(Optimizer& optimizer, const std::optional<at::Tensor>& skip,
                        bool& has_begun);
  ~ScopedStepsInBackward();
  ScopedStepsInBackward(const ScopedStepsInBackward&) = delete;
  ScopedStepsInBackward& operator=(const ScopedStepsInBackward&) = delete;

 private:
  const std::vector<at::Tensor> parameters_;
};

}  // namespace stages
