#pragma once

#include <functional>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "stages/numerics/prepared_network.h"
#include "stages/train/grad_scaler.h"
#include "stages/train/gradient.h"
#include "stages/train/optimizer.h"
#include "stages/train/step_numbers.h"
#include "stages/train/step_plan.h"
#include "stages/train/weight_average.h"

namespace stages {

/// The Euclidean norm of all gradients taken together, a scalar on their device. There must be at least one.
at::Tensor global_norm(at::TensorList gradients);

/// What to divide gradients of norm `norm` by so that it is at most `limit`: max(1, (norm + 1e-6) / limit), the inverse
/// of what torch's clip_grad_norm_ multiplies them by. A scalar on the norm's device.
at::Tensor clip_divisor(const at::Tensor& norm, double limit);

/// One optimizer step after another, each in two halves:
///
///   auto computed = execution.compute(batch, {seed, step});  // can fail, and writes no weight
///   execution.commit(computed, rates);                       // allocates nothing, and cannot fail
///
/// A training runs it, a dry run traces it on the Meta device. What compute() spoils besides (gradients, buffers,
/// random numbers), a StepSnapshot puts back.
class StepExecution {
 public:
  /// All is borrowed; the network is on `device`. As long as this lives, it is prepared as the plan's numerics say. In
  /// fp16 the loss is scaled.
  StepExecution(const TrainingStep& step, torch::nn::Module& network, const std::vector<ParameterGroup>& groups,
                StepPlan plan, std::optional<double> gradient_clip_norm, at::Device device,
                std::optional<WeightAverageOptions> average = {});

  /// A step up to where the weights are written.
  struct Computed {
    StepNumbers numbers;
    std::vector<at::Tensor> gradients;
    std::optional<at::Tensor> overflow;  ///< where the loss is scaled: 1 if the gradients overflowed
    std::optional<at::Tensor> divisor;   ///< of clipping
    std::optional<at::Tensor> skip;      ///< 1: the weights are to be left alone
    std::int64_t step = 0;               ///< 1-based
  };
  /// `after_micro_batch` as accumulate_gradient() has it.
  Computed compute(const Batch& batch, const StepKey& key, const std::function<void()>& after_micro_batch = {});
  /// Also drops the gradients.
  void commit(const Computed& computed, const std::vector<Rates>& rates);

  const StepPlan& plan() const { return plan_; }
  const PreparedNetwork& network() const { return network_; }
  Optimizer& optimizer() { return optimizer_; }
  const Optimizer& optimizer() const { return optimizer_; }
  /// What the optimizer and the average of the weights remember. Shared, not copied.
  NamedTensors state() const;
  /// Null where no average is kept.
  WeightAverage* average() { return average_ ? &*average_ : nullptr; }
  const WeightAverage* average() const { return average_ ? &*average_ : nullptr; }
  /// Null where the loss is not scaled.
  GradScaler* scaler() { return scaler_ ? &*scaler_ : nullptr; }
  const GradScaler* scaler() const { return scaler_ ? &*scaler_ : nullptr; }

 private:
  const TrainingStep& step_;
  const StepPlan plan_;
  const PreparedNetwork network_;
  const std::optional<double> gradient_clip_norm_;
  Optimizer optimizer_;
  std::optional<GradScaler> scaler_;
  std::optional<WeightAverage> average_;
};

}  // namespace stages
