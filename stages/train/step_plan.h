#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <nlohmann/json_fwd.hpp>

#include "runner/shared/error/stage_error.h"
#include "stages/artifact/dataset.h"
#include "stages/memory/policy.h"
#include "stages/numerics/numerics.h"
#include "stages/tensor/named_tensors.h"
#include "stages/train/training_kind.h"
#include "stages/train/training_log.h"

namespace c10 {
struct Event;
}

namespace stages {

/// How a batch is cut to fit the device, and how its parts are computed; the trainer obeys it.
struct StepPlan {
  std::int64_t micro_batch = 0;  ///< units run at once; 0: the whole batch
  bool two_pass =
      false;  ///< encode micro-batches twice, and take the loss of the whole batch in between
  Numerics numerics = {};
  ActivationCheckpointing activation_checkpointing = {};  ///< its modules are paths in the network
  bool offloads_optimizer = false;     ///< its state lies in the host's memory between steps
  bool optimizer_in_backward = false;  ///< it steps each parameter once its gradient is there
  bool operator==(const StepPlan&) const = default;
};

/// The plan that `policy` asks for, for batches of at most `units`. Throws runner::StageError when
/// such a cut would train something else than the whole batch does; with two passes a loss over the
/// whole batch can be cut. Layers that mix samples are cut only where the recipe asks for that by
/// name, `declares_cut`, and never take a single one.
StepPlan make_step_plan(const TrainingStep& step, const MemoryPolicy& policy, std::int64_t units,
                        Numerics numerics, ActivationCheckpointing activation_checkpointing,
                        bool declares_cut = false);

/// The fewest units of a batch, or of a part of one, that the step can learn from: 2 where layers
/// of its network mix the samples of a batch.
std::int64_t least_units(const TrainingStep& step);

/// Throws runner::StageError: the policy's optimizer_in_backward cannot be obeyed, `why`.
[[noreturn]] void refuse_in_backward(const MemoryPolicy& policy, const std::string& why,
                                     const std::string& help);

/// {"micro_batch", "two_pass", "activation_checkpointing"}, "offload" and "optimizer_in_backward"
/// where they are on, and what to_json(Numerics) says: for the record of the very steps that were
/// run.
nlohmann::ordered_json to_json(const StepPlan& plan);

/// How many parts a batch of `units` is measured in: its micro-batches, or in two passes one.
std::int64_t parts(const StepPlan& plan, std::int64_t units);

/// What one batch measured: a row of sums for each micro-batch, on the device until the host asks.
///
/// Nothing here makes the host wait for a GPU but means() and what follows it; fetch() starts the
/// copy, so that it has long arrived when they are called a step later.
class StepNumbers {
 public:
  /// `weight` of the whole batch in the loss, and what its scores count among
  /// (TrainingStep::scored()).
  StepNumbers(double weight, std::int64_t scored);
  ~StepNumbers();
  StepNumbers(StepNumbers&&) noexcept;
  StepNumbers& operator=(StepNumbers&&) noexcept;

  /// The sums of one micro-batch, as TrainingStep::loss and TrainingStep::score give them, for
  /// add().
  at::Tensor row(const NamedTensors& terms, const NamedTensors& scores);
  /// The next micro-batch.
  void add(at::Tensor row);
  /// The norm of the whole gradient before clipping.
  void set_gradient_norm(const at::Tensor& norm);
  /// The scale of the loss, and 1 where the gradients overflowed under it, so that the step is
  /// skipped; else 0.
  void set_scaling(const at::Tensor& scale, const at::Tensor& overflow);

  /// Starts the copy to the host; called once, after the last add().
  void fetch();
  /// A float32 scalar on the device: 1 if the loss or the gradient is not finite, else 0. After
  /// fetch().
  at::Tensor broken() const;

  Means means() const { return means({this, 1}); }
  /// Over some batches, at least one, that the same step has measured. Their sums are added up
  /// before anything is divided: equal counts give equal shares, however the samples were divided
  /// among batches and parts.
  static Means means(std::span<const StepNumbers> batches);
  /// Absent too for a skipped step, whose gradient is none.
  std::optional<double> gradient_norm() const;
  std::optional<double> loss_scale() const;
  /// The gradients overflowed under the loss's scale.
  bool skipped() const;
  /// The first micro-batch whose loss is not finite.
  std::optional<std::int64_t> first_broken_part() const;

 private:
  void wait() const;
  /// Adds up the rows.
  void add_sums(std::vector<double>& sums) const;
  /// Number `index` of the host's, counted from the end for a negative one.
  double value(std::int64_t index) const;

  double weight_, scored_;
  std::vector<std::string> term_names_, score_names_;
  std::vector<at::Tensor> rows_;  // (terms + scores) float64 each
  at::Tensor norm_;               // (1) float64
  at::Tensor scaling_;            // (2) float64: scale, overflow
  at::Tensor device_values_;      // rows one after the other, then the norm, then the scaling
  at::Tensor host_values_;
  std::unique_ptr<c10::Event> copied_;  // null where there is nothing to wait for
};

/// A step whose numbers may still be on their way: what an error about it must be able to say.
struct StepPlace {
  std::int64_t epoch = 0, step = 0;   ///< 1-based
  std::int64_t units = 0;             ///< of the batch
  StepPlan plan;                      ///< how it was cut
  std::vector<std::int64_t> indices;  ///< the batch's samples in the dataset
};

/// Throws runner::StageError kLossNotFinite, naming the step and its samples, if the numbers say
/// so; waits for them.
void refuse_not_finite(const StepNumbers& numbers, const StepPlace& place, const Dataset& dataset);

/// "step 10, in epoch 2: the loss is 1.7e+29, where 1.4 is usual, on 'a.jpg'": `what` is "the
/// loss".
std::string disproportionate(const std::string& what, double number, std::optional<double> usual,
                             const StepPlace& place, const Dataset& dataset);

/// Throws runner::StageError: the gradients have overflowed in fp16 for many steps, though the
/// loss's scale shrank.
[[noreturn]] void refuse_endless_overflow(const StepPlace& place, double scale);

/// Throws runner::StageError naming the sample if `step` finds a bad unit in a batch on the host.
void refuse_bad_unit(const TrainingStep& step, const Dataset& dataset, const Batch& batch);

}  // namespace stages
